#include "runtime/critical/observed_run.hpp"

#include <algorithm>

#include "runtime/base/median.hpp"

namespace troupe {
namespace {

// The mean time between the first tasks of a role in two steps that follow each other, of the role
// that has most of them.
void take_steps(observed_run& o, const std::map<std::string, std::map<std::uint64_t, time_point>>& begun) {
  for (const auto& [role, steps] : begun) {
    std::vector<double> each;
    for (auto at = steps.begin(); at != steps.end() && std::next(at) != steps.end(); ++at)
      if (const auto next = std::next(at); next->first == at->first + 1) each.push_back(seconds_of(next->second - at->second));
    if (each.size() <= o.steps) continue;
    // Without pauses, such as evaluations.
    const auto longest = 3 * upper_median(each);
    double sum = 0, n = 0;
    for (double x : each)
      if (x <= longest) sum += x, n += 1;
    o.steps = each.size();
    o.step_seconds = sum / n;
  }
}

}  // namespace

observed_run observed_in(const trace_file& t) {
  observed_run o;
  const auto end = t.slices.empty() ? time_point{} : t.slices.back().end;
  std::map<std::string, std::map<std::uint64_t, time_point>> begun;  // by role and step
  for (const auto& s : t.slices) {
    if (s.begin < end / 10) continue;
    const auto& track = t.tracks[s.track];
    if (track.process == "links") {
      const auto to = track.name.find(" to ");
      if (to != std::string::npos)
        o.links[{track.name.substr(0, to), track.name.substr(to + 4)}][s.bytes].push_back(s.end - s.begin);
      continue;
    }
    o.tasks[{track.name, t.names[s.name]}].push_back(s.end - s.begin);
    if (!s.of_packet) continue;
    const auto [at, first] = begun[track.name].try_emplace(s.step, s.begin);
    if (!first) at->second = std::min(at->second, s.begin);
  }
  take_steps(o, begun);
  return o;
}

double observed_run::busy(const std::string& role) const {
  double sum = 0;
  for (auto at = tasks.lower_bound({role, {}}); at != tasks.end() && at->first.first == role; ++at)
    for (const auto& d : at->second) sum += seconds_of(d);
  return steps == 0 ? 0 : sum / static_cast<double>(steps);
}

}  // namespace troupe
