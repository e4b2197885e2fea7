#include "apps/troupe_output.hpp"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace troupe {

void output::object(const nlohmann::ordered_json& o) const {
  const auto line = o.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

void output::text(const std::string& s) const {
  if (json_) return;
  std::fwrite(s.data(), 1, s.size(), stdout);
  std::fflush(stdout);
}

void output::remark(const std::string& s) const { std::fprintf(stderr, "%s\n", s.c_str()); }

void output::error(const std::string& where, const std::string& message) const {
  if (json_) return object({{"event", "error"}, {"where", where}, {"message", message}});
  std::fprintf(stderr, "%s%s%s\n", where.c_str(), where.empty() ? "" : ": ", message.c_str());
}

int output::wrong(const diagnostics& list) const {
  for (const auto& d : list) error(d.at.to_string(), d.message);
  return exit_wrong;
}

int output::wrong(const std::string& where, const std::string& message) const {
  error(where, message);
  return exit_wrong;
}

int output::failed(const std::string& where, const std::string& message) const {
  error(where, message);
  return exit_failed;
}

std::string fixed(double x, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, x);
  return text;
}

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

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t u = 0;
  for (; bytes >= 1024 && u < 4; ++u) bytes /= 1024;
  return fixed(bytes, u == 0 ? 0 : 1) + " " + units[u];
}

std::string left(const std::string& s, std::size_t width) { return s.size() < width ? s + std::string(width - s.size(), ' ') : s; }
std::string right(const std::string& s, std::size_t width) { return s.size() < width ? std::string(width - s.size(), ' ') + s : s; }

}  // namespace troupe
