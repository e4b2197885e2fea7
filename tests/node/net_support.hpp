// Helpers for tests of the data plane: certificates of a cluster, a transport that records its
// events, and a TLS client that can violate the protocol. No helper sleeps in order to wait.
#pragma once

#include <arpa/inet.h>
#include <dirent.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/net/credit.hpp"
#include "runtime/node/net/frame.hpp"
#include "runtime/node/net/hello.hpp"
#include "runtime/node/net/tcp_transport.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe::net::testing {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using bytes = std::vector<std::byte>;

class temporary_directory {
 public:
  temporary_directory() {
    std::string name = (std::filesystem::temp_directory_path() / "troupe-net-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~temporary_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_directory(const temporary_directory&) = delete;
  temporary_directory& operator=(const temporary_directory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// good/: the cluster, with one node, `old`, whose certificate has expired; other/: the same names
// under another CA.
struct certificate_sets {
  temporary_directory dir;
  certificate_sets() {
    const std::vector<certificate_subject> nodes = {{"a", {"127.0.0.1"}}, {"b", {"127.0.0.1"}}, {"c", {"127.0.0.1"}}};
    for (const char* set : {"good", "other"}) check(make_cluster_certificates(dir.path() / set, "troop", nodes));
    certificate_options expired;
    expired.from = -48h;
    expired.until = -24h;
    check(add_node_certificate(dir.path() / "good", {"old", {"127.0.0.1"}}, expired));
  }
  static void check(const expected<void, coded_error>& done) {
    if (!done) throw std::runtime_error(done.error().code + ": " + done.error().message);
  }
};
inline const std::filesystem::path& certificates() {
  static const certificate_sets sets;
  return sets.dir.path();
}

inline bytes pattern(std::size_t n, std::uint64_t seed) {
  bytes out(n);
  std::mt19937_64 rng(seed);
  for (std::size_t i = 0; i < n; i += 8) {
    const std::uint64_t v = rng();
    std::memcpy(out.data() + i, &v, std::min<std::size_t>(8, n - i));
  }
  return out;
}

inline outgoing_frame frame_of(bytes payload, std::uint64_t id = 0, std::uint16_t type = 1, std::uint32_t destination = 5) {
  auto owner = std::make_shared<const bytes>(std::move(payload));
  outgoing_frame f{type, 0, destination, id, {}};
  // Two uneven parts, as a message header and a tensor would be.
  const std::size_t cut = std::min<std::size_t>(owner->size(), 64);
  f.parts = {{owner->data(), cut, owner}, {owner->data() + cut, owner->size() - cut, owner}};
  f.parts[1].may_be_shared = true;
  return f;
}

inline std::size_t open_descriptors() {
  std::size_t n = 0;
  DIR* d = ::opendir("/proc/self/fd");
  while (::readdir(d) != nullptr) ++n;
  ::closedir(d);
  return n;
}

// A transport and the events that it has reported.
class node {
 public:
  struct received {
    std::string peer;
    frame f;
  };
  // Makes the transport under test; empty: tcp.
  static inline std::function<expected<std::unique_ptr<transport>, coded_error>(const tcp_options&, callbacks)> make;

  explicit node(const std::string& name, const std::function<void(tcp_options&)>& adjust = {}) {
    tcp_options o;
    o.cluster = "troop";
    o.node = name;
    const auto dir = certificates() / "good";
    o.ca = dir / "ca.pem";
    o.certificate = dir / (name + ".pem");
    o.key = dir / (name + ".key");
    if (adjust) adjust(o);
    callbacks on;
    on.on_peer_up = [this](const std::string& p, std::uint64_t inc) {
      change([&] { ups[p].push_back(inc); });
      if (when_up) when_up(p);
    };
    on.on_peer_down = [this](const std::string& p, const coded_error& why) { change([&] { downs[p].push_back(why); }); };
    on.on_frame = [this](const std::string& p, frame&& f) -> expected<void, coded_error> {
      if (when_frame) return when_frame(p, std::move(f));
      change([&] { frames.push_back({p, std::move(f)}); });
      return {};
    };
    on.log = [this](const std::string& line) { change([&] { log.push_back(line); }); };
    auto t = make ? make(o, on) : make_tcp_transport(o, on);
    if (!t) throw std::runtime_error(t.error().code + ": " + t.error().message);
    net = std::move(*t);
  }
  std::uint16_t listen() {
    const auto p = net->listen({"127.0.0.1", 0});
    if (!p) throw std::runtime_error(p.error().message);
    return port = *p;
  }
  bool wait(clock::duration limit, const std::function<bool()>& until) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, limit, until);
  }
  bool wait_up(const std::string& peer, std::size_t times = 1, clock::duration limit = 10s) {
    return wait(limit, [&] { return ups[peer].size() >= times; });
  }
  bool wait_down(const std::string& peer, clock::duration limit, std::size_t times = 1) {
    return wait(limit, [&] { return downs[peer].size() >= times; });
  }
  bool wait_frames(std::size_t n, clock::duration limit = 30s) {
    return wait(limit, [&] { return frames.size() >= n; });
  }
  // Waits for the oldest frame and removes it; an empty frame after the limit.
  frame take(clock::duration limit = 30s) {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, limit, [&] { return !frames.empty(); })) return {};
    frame f = std::move(frames.front().f);
    frames.erase(frames.begin());
    return f;
  }
  // For conditions without an event: checked after every event, and every few milliseconds.
  bool eventually(clock::duration limit, const std::function<bool()>& until) {
    for (const auto end = clock::now() + limit; !until();) {
      if (clock::now() > end) return false;
      std::unique_lock lock(mutex);
      changed.wait_for(lock, 5ms);
    }
    return true;
  }
  bool wait_log(const std::string& part, clock::duration limit) {
    return wait(limit, [&] {
      for (const auto& l : log)
        if (l.find(part) != std::string::npos) return true;
      return false;
    });
  }
  peer_stats stats_of(const std::string& peer) const {
    for (auto& s : net->stats().peers)
      if (s.peer == peer) return s;
    return {};
  }

  std::function<void(const std::string&)> when_up;
  std::function<expected<void, coded_error>(const std::string&, frame&&)> when_frame;  // set before any peer is up
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::vector<std::uint64_t>> ups;
  std::map<std::string, std::vector<coded_error>> downs;
  std::vector<received> frames;
  std::vector<std::string> log;
  std::uint16_t port = 0;
  std::unique_ptr<transport> net;  // last member: destroyed first, and no callback follows

 private:
  template <class F>
  void change(F&& f) {
    {
      const std::lock_guard lock(mutex);
      f();
    }
    changed.notify_all();
  }
};

inline bool join(node& from, node& to, const std::string& from_name, const std::string& to_name) {
  from.net->connect(to_name, {"127.0.0.1", to.port}, 10s);
  return from.wait_up(to_name) && to.wait_up(from_name);
}

// A blocking TLS client without the transport's checks, which can violate the protocol.
class raw_client {
 public:
  explicit raw_client(std::uint16_t port) {
    ::signal(SIGPIPE, SIG_IGN);  // OpenSSL's socket writes do not suppress it
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) throw std::runtime_error("connect");
    const timeval limit{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;
  ~raw_client() {
    if (ssl_) SSL_free(ssl_);
    if (context_) SSL_CTX_free(context_);
    hang_up();
  }
  void hang_up() {  // a reset, not a goodbye
    if (fd_ < 0) return;
    const linger hard{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    ::close(fd_);
    fd_ = -1;
  }
  void send_plain(const std::string& text) { (void)::send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }

  // `stem`: path of certificate and key without their endings; empty: none.
  bool handshake(const std::filesystem::path& stem) {
    context_ = SSL_CTX_new(TLS_client_method());
    if (!stem.empty() && (SSL_CTX_use_certificate_chain_file(context_, (stem.string() + ".pem").c_str()) != 1 ||
                          SSL_CTX_use_PrivateKey_file(context_, (stem.string() + ".key").c_str(), SSL_FILETYPE_PEM) != 1))
      return false;
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, fd_);
    return SSL_connect(ssl_) == 1;
  }
  bool write(std::span<const std::byte> data) { return SSL_write(ssl_, data.data(), static_cast<int>(data.size())) > 0; }
  bool write_frame(frame_header h, const bytes& payload) {
    if (h.length == 0) h.length = payload.size();
    bytes out(header_bytes);
    seal_header(h, std::array<std::span<const std::byte>, 1>{payload},
                std::span<std::byte, header_bytes>(out.data(), header_bytes));
    out.insert(out.end(), payload.begin(), payload.end());
    return write(out);
  }
  bool write_control(control_type type, const bytes& payload = {}) {
    frame_header h;
    h.type = static_cast<std::uint16_t>(type);
    return write_frame(h, payload);
  }
  bool greet(const std::string& name, const std::function<void(hello&)>& adjust = {}) {
    hello h;
    h.incarnation = 1;
    h.window = 1 << 20;
    h.max_frame = 1 << 30;
    h.cluster = "troop";
    h.node = name;
    h.wanted = "a";
    if (adjust) adjust(h);
    return write_control(control_type::hello, encode_hello(h));
  }
  // The next frame from the node; empty if it closes the connection.
  std::optional<frame> read() {
    frame f;
    std::array<std::byte, 4096> chunk{};
    while (true) {
      const auto r = parser_.next(left_, f);
      if (r == frame_parser::result::complete) return f;
      if (r == frame_parser::result::failed) return std::nullopt;
      const int n = SSL_read(ssl_, chunk.data(), static_cast<int>(chunk.size()));
      if (n <= 0) return std::nullopt;
      buffer_.assign(chunk.begin(), chunk.begin() + n);
      left_ = buffer_;
    }
  }
  // Reads up to that many bytes and drops them. Returns their number.
  std::size_t swallow(std::size_t most) {
    std::vector<char> sink(most);
    const auto n = ::recv(fd_, sink.data(), sink.size(), 0);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  // Returns true if the node closes the connection in time; drops all that it sends before.
  bool closed_within(clock::duration limit) {
    const auto end = clock::now() + limit;
    std::array<char, 4096> sink{};
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now()).count();
      if (left <= 0) return false;
      pollfd p{fd_, POLLIN, 0};
      if (::poll(&p, 1, static_cast<int>(left)) <= 0) return false;
      if (::recv(fd_, sink.data(), sink.size(), 0) <= 0) return true;
    }
  }

 private:
  int fd_ = -1;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  bytes buffer_;
  std::span<const std::byte> left_;
  frame_parser parser_{1 << 20, [](const frame_header& h) -> expected<std::shared_ptr<std::byte>, coded_error> {
                         const auto n = static_cast<std::size_t>(h.length);
                         return std::shared_ptr<std::byte>(new std::byte[n], std::default_delete<std::byte[]>());
                       }};
};

}  // namespace troupe::net::testing
