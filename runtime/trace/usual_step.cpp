#include "runtime/trace/usual_step.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "runtime/base/median.hpp"

namespace troupe {

std::optional<double> usual_step(const std::vector<activity>& all, std::uint32_t job) {
  std::map<std::pair<role_id, std::uint64_t>, time_point> begun;  // by role and step
  for (const auto& a : all) {
    if (a.job != job || a.step == 0 || a.kind == activity::kind_of::status) continue;
    const auto [known, first] = begun.try_emplace({a.role, a.step}, a.at);
    if (!first) known->second = std::min(known->second, a.at);
  }
  std::vector<double> steps;
  for (auto at = begun.begin(); at != begun.end(); ++at) {
    const auto next = std::next(at);
    if (next == begun.end()) break;
    const bool follows = next->first.first == at->first.first && next->first.second == at->first.second + 1;
    if (follows && next->second > at->second) steps.push_back(seconds_of(next->second - at->second));
  }
  if (steps.empty()) return std::nullopt;
  return upper_median(steps);
}

}  // namespace troupe
