// A raw HTTP client for tests: sends any bytes and reads what the server answers, with deadlines.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::testing_http {

class http_client {
 public:
  using clock = std::chrono::steady_clock;

  // `from`: the client's own address; empty: any.
  explicit http_client(std::uint16_t port, const std::string& host = "127.0.0.1", const std::string& from = {}) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    if (!from.empty()) {
      ::inet_pton(AF_INET, from.c_str(), &a.sin_addr);
      if (::bind(fd_, reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0) throw std::runtime_error("cannot bind to " + from);
    }
    a.sin_port = htons(port);
    ::inet_pton(AF_INET, host.c_str(), &a.sin_addr);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0 && !connected_after_signal()) {
      const int why = errno;
      ::close(fd_);
      throw std::runtime_error("cannot connect to port " + std::to_string(port) + ": " + std::strerror(why));
    }
  }
  http_client(http_client&& o) noexcept : fd_(std::exchange(o.fd_, -1)), text_(std::move(o.text_)) {}
  http_client(const http_client&) = delete;
  http_client& operator=(const http_client&) = delete;
  ~http_client() {
    if (fd_ >= 0) ::close(fd_);
  }

  // Returns false if the server has closed the connection.
  bool send(const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const auto n = ::send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return false;
      at += static_cast<std::size_t>(n);
    }
    return true;
  }
  void end_sending() { ::shutdown(fd_, SHUT_WR); }

  // Reads one response (`head`: without a body). Empty if the connection ends before it is
  // complete.
  std::string response(bool head = false, std::chrono::milliseconds within = std::chrono::seconds(20)) {
    const auto until = clock::now() + within;
    for (;;) {
      if (const auto end = text_.find("\r\n\r\n"); end != std::string::npos) {
        const auto whole = end + 4 + (head ? 0 : length_in(text_.substr(0, end)));
        if (text_.size() >= whole) {
          auto r = text_.substr(0, whole);
          text_.erase(0, whole);
          return r;
        }
      }
      if (!more(until)) return {};
    }
  }
  // Reads until the server closes the connection; false if it does not.
  bool closed(std::chrono::milliseconds within = std::chrono::seconds(20)) {
    const auto until = clock::now() + within;
    while (more(until)) {
    }
    return ended_;
  }
  const std::string& unread() const { return text_; }
  std::string& arrived() { return text_; }
  int descriptor() const { return fd_; }
  // Waits for further bytes; false if the connection ends, or at `until`.
  bool more(clock::time_point until) {
    pollfd p{fd_, POLLIN, 0};
    for (int ready = 0; ready <= 0;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
      if (ended_ || left <= 0) return false;
      ready = ::poll(&p, 1, static_cast<int>(left));
      if (ready < 0 && errno != EINTR) return false;
    }
    char buffer[16384];
    const auto n = ::recv(fd_, buffer, sizeof buffer, 0);
    ended_ = n <= 0;
    if (n > 0) text_.append(buffer, static_cast<std::size_t>(n));
    return n > 0;
  }

 private:
  // A signal has interrupted connect(), which goes on: waits for its end.
  bool connected_after_signal() const {
    if (errno != EINTR) return false;
    pollfd p{fd_, POLLOUT, 0};
    while (::poll(&p, 1, 20'000) < 0 && errno == EINTR) {
    }
    int why = 0;
    socklen_t size = sizeof why;
    ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &why, &size);
    errno = why;
    return why == 0;
  }

  static std::size_t length_in(const std::string& header) {
    const auto at = header.find("Content-Length: ");
    return at == std::string::npos ? 0 : std::stoul(header.substr(at + 16));
  }

  int fd_ = -1;
  std::string text_;
  bool ended_ = false;
};

inline std::string get_request(const std::string& path, const std::string& more = {}) {
  return "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + more + "\r\n";
}
// The response to a GET on a connection of its own.
inline std::string http_get(std::uint16_t port, const std::string& path, const std::string& more = {}) {
  http_client c(port);
  c.send(get_request(path, more));
  return c.response();
}
inline int status_of(const std::string& response) { return response.size() < 12 ? 0 : std::stoi(response.substr(9, 3)); }
inline std::string body_of(const std::string& response) {
  const auto end = response.find("\r\n\r\n");
  return end == std::string::npos ? std::string() : response.substr(end + 4);
}

// The value of a series in a page of Prometheus' text format; NaN if it has none.
inline double series_in(const std::string& page, const std::string& series) {
  const auto at = ("\n" + page).find("\n" + series + " ");
  return at == std::string::npos ? std::nan("") : std::stod(page.substr(at + series.size() + 1));
}

}  // namespace troupe::testing_http
