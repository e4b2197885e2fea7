#include "apps/cli/output.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>

#include "actors/supervision/stop_signals.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/printable.hpp"

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;

// Set if writing to stdout failed. The command then continues, reports the error once on stderr,
// and exits with a failure.
std::atomic<bool> stdout_lost{false};
std::atomic<bool> stdout_reader_gone{false};

// A pipe whose reading end is closed, or a terminal that hung up.
bool stdout_has_no_reader() {
  pollfd p{STDOUT_FILENO, POLLOUT, 0};
  return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

std::atomic<bool> end_asked{false};

// A pipe or terminal whose reader has stopped reading blocks the writer. A process that was asked
// to end must not wait for it: the scheduler that asked would kill it before it has saved anything.
class stream {
 public:
  explicit stream(int fd) : fd_(fd) {}

  // Writes all of `s`; false: it failed, and errno says why (EAGAIN: nobody reads).
  bool write(std::string_view s) {
    const std::lock_guard guard(lock_);
    while (!s.empty()) {
      if (!wait()) {
        errno = EAGAIN;
        return false;
      }
      // poll() promises room for PIPE_BUF bytes.
      const auto n = ::write(fd_, s.data(), std::min<std::size_t>(s.size(), PIPE_BUF));
      if (n < 0 && errno != EINTR && errno != EAGAIN) return false;
      if (n > 0) s.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

 private:
  // Waits until the stream takes bytes, or has an error. False: the process ends and nobody reads.
  bool wait() {
    constexpr int look_every = 100;  // ms
    clock::time_point until{};
    while (!unread_) {
      pollfd p{fd_, POLLOUT, 0};
      const int ready = poll(&p, 1, look_every);
      if (ready > 0 || (ready < 0 && errno != EINTR)) return true;
      if (!end_asked && !stop_signals::asked()) continue;
      if (until == clock::time_point{}) until = clock::now() + reader_patience;
      unread_ = clock::now() >= until;
    }
    return false;
  }

  const int fd_;
  std::mutex lock_;
  bool unread_ = false;
};

stream to_stdout(STDOUT_FILENO), to_stderr(STDERR_FILENO);

void put_error(const std::string& s) { static_cast<void>(to_stderr.write(s)); }

void say_lost(int why) {
  if (!stdout_reader_gone) stdout_reader_gone = stdout_has_no_reader();
  if (stdout_reader_gone || stdout_lost.exchange(true)) return;
  put_error("stdout: cannot write" +
            (why == EAGAIN ? ": its reader does not read; the rest of the output is left out"
             : why != 0    ? std::string(": ") + std::strerror(why)
                           : std::string()) +
            "\n");
}

void put(const std::string& s) {
  if (stdout_reader_gone) return;
  if (std::fflush(stdout) != 0 || !to_stdout.write(s)) say_lost(errno);
}

}  // namespace

int with_stdout(int code) {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) say_lost(errno);
  return stdout_lost && code == exit_done ? int{exit_failed} : code;
}

bool stdout_unread() { return stdout_reader_gone; }

void wait_no_more_for_readers() { end_asked = true; }

void output::object(const nlohmann::ordered_json& o) const {
  put(o.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void output::lines(const std::string& s) const {
  if (!s.empty()) put(json_ ? s : printable(s, line_breaks::kept));
}

void output::text(const std::string& s) const { drawn(printable(s, line_breaks::kept)); }

void output::drawn(const std::string& s) const {
  if (!json_ && !s.empty()) put(s);
}

void output::formatted(const std::string& s) const {
  if (!s.empty()) put(json_ || isatty(STDOUT_FILENO) == 0 ? s : printable(s, line_breaks::kept));
}

void output::remark(const std::string& s) const { put_error(printable(s, line_breaks::kept) + "\n"); }

void output::error(const std::string& where, const std::string& text) const {
  if (json_) return object({{"event", "error"}, {"where", where}, {"message", text}});
  remark(where + (where.empty() ? "" : ": ") + text);
}

int output::wrong(const diagnostics& list) const {
  for (const auto& d : list) error(d.at.to_string(), d.message);
  return exit_wrong;
}

int output::wrong(const std::string& where, const std::string& text) const {
  error(where, text);
  return exit_wrong;
}

int output::failed(const std::string& where, const std::string& text) const {
  error(where, text);
  return exit_failed;
}

std::string weights_line(const std::string& hash) {
  return "weights_sha256 " + hash + " (of the weights' values; `sha256sum` of a weights file differs)";
}
std::string fixed(double x, int digits) { return fixed_text(x, digits); }

std::string clock_text(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  const auto s = static_cast<std::uint64_t>(std::llround(seconds));
  char text[64];
  if (s >= 3600)
    std::snprintf(text, sizeof text, "%llu:%02llu:%02llu", static_cast<unsigned long long>(s / 3600),
                  static_cast<unsigned long long>(s / 60 % 60), static_cast<unsigned long long>(s % 60));
  else
    std::snprintf(text, sizeof text, "%llu:%02llu", static_cast<unsigned long long>(s / 60),
                  static_cast<unsigned long long>(s % 60));
  return text;
}

std::string left(const std::string& s, std::size_t width) { return s.size() < width ? s + std::string(width - s.size(), ' ') : s; }
std::string flush_right(const std::string& s, std::size_t width) {
  return s.size() < width ? std::string(width - s.size(), ' ') + s : s;
}

}  // namespace troupe
