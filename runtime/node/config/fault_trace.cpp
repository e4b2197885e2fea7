#include "runtime/node/config/fault_trace.hpp"

#include <cmath>
#include <optional>
#include <sstream>

#include "runtime/node/config/table_reader.hpp"

namespace troupe {
namespace {

constexpr double max_trace_seconds = 1e9;

std::optional<duration> time_in(const std::string& word) {
  const auto s = parse_time(word);
  if (!s || !(*s >= 0 && *s <= max_trace_seconds)) return std::nullopt;
  return duration(static_cast<std::int64_t>(std::llround(*s * 1e9)));
}

// Parses a node number from 1 to 65535; 0: invalid.
std::uint32_t node_in(const std::string& word) {
  if (word.empty() || word.size() > 5 || word.find_first_not_of("0123456789") != std::string::npos) return 0;
  const auto n = std::stoul(word);
  return n > 65535 ? 0 : static_cast<std::uint32_t>(n);
}

diagnostics mistake_at(source_position at, std::string what) {
  diagnostic d;
  d.at = std::move(at);
  d.message = std::move(what);
  return diagnostics(1, d);
}

}  // namespace

expected<std::vector<traced_crash>, diagnostics> parse_fault_trace(const std::string& text, const std::string& file) {
  std::vector<traced_crash> all;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string when, node, down, more;
    if (!(words >> when)) continue;
    words >> node >> down >> more;
    const source_position here{file, number, 1};
    const auto at = time_in(when);
    const auto who = node_in(node);
    const auto away = down.empty() ? std::optional(duration{-1}) : time_in(down);
    if (!at || who == 0 || !away || !more.empty())
      return unexpected(mistake_at(here, "write \"TIME NODE\" or \"TIME NODE DOWN\", as in \"3.5h 17 20min\""));
    all.push_back({{*at, who - 1, *away}, here});
  }
  if (all.empty()) return unexpected(mistake_at({file, 1, 1}, "the trace contains no crashes"));
  return all;
}

}  // namespace troupe
