// Sends REPL lines to the socket of a running process.
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "actors/repl/run_socket.hpp"
#include "actors/repl/signals.hpp"
#include "actors/repl/tables.hpp"
#include "actors/repl/unix_socket.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using kind = repl_reply::kind;

class run_lines {
 public:
  run_lines(open_fd fd, bool json) : fd_(std::move(fd)), json_(json) {}

  repl_reply run(const std::string& line) {
    if (line.size() > max_run_request / 2) return failed("the line is too long");
    const auto sent = to_line(run_request{line, json_});
    if (::send(fd_.get(), sent.data(), sent.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(sent.size())) return gone();
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (std::chrono::steady_clock::now() < deadline) {
      if (const auto end = in_.find('\n'); end != std::string::npos) {
        auto r = read_run_reply(std::string_view(in_).substr(0, end));
        in_.erase(0, end + 1);
        if (late_ > 0) {
          --late_;
          continue;
        }
        return r ? std::move(*r) : failed("the process sent an answer that cannot be read");
      }
      if (repl_signals::ends() != 0) {
        ++late_;
        return failed("interrupted; the process may still execute the command");
      }
      if (!receive()) return gone();
    }
    ++late_;
    return failed("the process did not answer in time");
  }

 private:
  // Returns false if the connection has ended.
  bool receive() {
    pollfd in{fd_.get(), POLLIN, 0};
    if (::poll(&in, 1, 100) <= 0) return true;
    char buffer[65536];
    const auto got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (got > 0) in_.append(buffer, static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && errno == EINTR);
  }
  repl_reply failed(const std::string& why) const { return {kind::failed, repl_error_text(json_, why), {}}; }
  repl_reply gone() const { return failed("the run has ended"); }

  open_fd fd_;
  bool json_;
  std::string in_;
  std::size_t late_ = 0;  // answers to come for which no request waits any more
};

}  // namespace

expected<repl_lines> connect_run(const std::filesystem::path& file, bool json) {
  auto fd = connect_unix(file);
  if (!fd)
    return unexpected(error(errno == ENOENT || errno == ECONNREFUSED ? "no process trains there now" : std::strerror(errno)));
  auto lines = std::make_shared<run_lines>(std::move(fd), json);
  return repl_with_files([lines](const std::string& line, const std::string*) { return lines->run(line); }, json);
}

}  // namespace troupe
