#include "runtime/coordinator/staleness.hpp"

#include <charconv>

namespace troupe {

std::uint64_t staleness_entry::count() const {
  std::uint64_t n = 0;
  for (const auto& [clocks, times] : reads) n += times;
  return n;
}

double staleness_entry::mean() const {
  double sum = 0;
  for (const auto& [clocks, times] : reads) sum += static_cast<double>(clocks) * static_cast<double>(times);
  const auto n = count();
  return n > 0 ? sum / static_cast<double>(n) : 0.0;
}

std::string staleness_key(const std::string& parameter, std::uint64_t clocks) { return parameter + " " + std::to_string(clocks); }

std::vector<staleness_entry> staleness_of(const event_effect& e) {
  std::vector<staleness_entry> entries;
  for (const auto& [key, value] : e.values) {
    const auto blank = key.rfind(' ');
    if (blank == std::string::npos || !(value >= 0)) continue;
    std::uint64_t clocks = 0;
    const auto* end = key.data() + key.size();
    const auto read = std::from_chars(key.data() + blank + 1, end, clocks);
    if (read.ec != std::errc() || read.ptr != end) continue;
    const auto name = key.substr(0, blank);
    if (entries.empty() || entries.back().parameter != name) entries.push_back({name, {}});
    entries.back().reads[clocks] += static_cast<std::uint64_t>(value);
  }
  return entries;
}

}  // namespace troupe
