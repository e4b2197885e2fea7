#include "apps/troupe_output.hpp"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/base/number_text.hpp"
#include "runtime/base/printable.hpp"

namespace troupe {

namespace {

// Set if writing to stdout failed. The command then continues, reports the error once on stderr,
// and exits with a failure.
std::atomic<bool> stdout_lost{false};
std::atomic<bool> stdout_reader_gone{false};

// A pipe whose reading end is closed, or a terminal that hung up.
bool stdout_has_no_reader() {
  pollfd p{STDOUT_FILENO, POLLOUT, 0};
  return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

void say_lost(int why) {
  if (!stdout_reader_gone) stdout_reader_gone = stdout_has_no_reader();
  if (stdout_reader_gone || stdout_lost.exchange(true)) return;
  std::fprintf(stderr, "stdout: cannot write%s%s\n", why != 0 ? ": " : "", why != 0 ? std::strerror(why) : "");
}

void put(const std::string& s) {
  if (stdout_reader_gone) return;
  errno = 0;
  if (std::fwrite(s.data(), 1, s.size(), stdout) != s.size() || std::fflush(stdout) != 0) say_lost(errno);
}

}  // namespace

int with_stdout(int code) {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) say_lost(errno);
  return stdout_lost && code == exit_done ? int{exit_failed} : code;
}

bool stdout_unread() { return stdout_reader_gone; }

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

void output::remark(const std::string& s) const { std::fprintf(stderr, "%s\n", printable(s, line_breaks::kept).c_str()); }

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
