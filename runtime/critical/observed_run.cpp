#include "runtime/critical/observed_run.hpp"

#include <algorithm>

#include "runtime/base/median.hpp"

namespace troupe {
namespace {

// When all threads of a node compute. A message that arrives then waits for one of them.
class full_times {
 public:
  void add_task(time_point begin, time_point end) {
    changes_.emplace_back(begin, 1);
    changes_.emplace_back(end, -1);
  }
  // After the last task.
  void close() {
    std::sort(changes_.begin(), changes_.end());  // of one time, ends come before begins
    const int threads = computed_at_once();
    int now = 0;
    duration before{};
    for (const auto& [at, by] : changes_) {
      const int next = now + by;
      if (now < threads && next >= threads) full_.push_back({at, at, before});
      if (now >= threads && next < threads) {
        full_.back().end = at;
        before += at - full_.back().begin;
      }
      now = next;
    }
  }
  duration within(time_point begin, time_point end) const { return until(end) - until(begin); }

 private:
  struct interval {
    time_point begin, end;
    duration before;  // sum of the earlier ones
  };
  // The number of tasks that are computed at once for a hundredth of the time or more: the number
  // of threads. Slices of one thread may overlap a little.
  int computed_at_once() const {
    std::map<int, duration> times;
    int now = 0;
    time_point since{};
    duration all{};
    for (const auto& [at, by] : changes_) {
      if (now > 0) times[now] += at - since, all += at - since;
      now += by, since = at;
    }
    int most = 1;
    for (const auto& [tasks, time] : times)
      if (time >= all / 100) most = tasks;
    return most;
  }
  duration until(time_point at) const {
    const auto after = std::partition_point(full_.begin(), full_.end(), [&](const interval& f) { return f.begin < at; });
    if (after == full_.begin()) return {};
    const auto& f = *std::prev(after);
    return f.before + (std::min(at, f.end) - f.begin);
  }

  std::vector<std::pair<time_point, int>> changes_;
  std::vector<interval> full_;
};

// The times of messages to a node, without those that are mostly the time for which they waited for
// a thread. If hardly any is left, the shortest of all remains.
std::vector<duration> under_way(const std::vector<std::pair<time_point, time_point>>& messages, const full_times& receiver) {
  constexpr std::size_t enough = 5;
  std::vector<duration> all, free;
  for (const auto& [begin, end] : messages) {
    all.push_back(end - begin);
    if (2 * receiver.within(begin, end) <= end - begin) free.push_back(end - begin);
  }
  if (free.size() >= enough) return free;
  return {*std::min_element(all.begin(), all.end())};
}

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
  std::map<std::string, full_times> full;                            // by node
  std::map<std::pair<std::string, std::string>, std::map<std::uint64_t, std::vector<std::pair<time_point, time_point>>>> messages;
  for (const auto& s : t.slices) {
    if (s.begin < end / 10) continue;
    const auto& track = t.tracks[s.track];
    if (track.process == "links") {
      const auto to = track.name.find(" to ");
      if (to != std::string::npos)
        messages[{track.name.substr(0, to), track.name.substr(to + 4)}][s.bytes].emplace_back(s.begin, s.end);
      continue;
    }
    full[track.process].add_task(s.begin, s.end);
    o.tasks[{track.name, t.names[s.name]}].push_back(s.end - s.begin);
    if (!s.of_packet) continue;
    const auto [at, first] = begun[track.name].try_emplace(s.step, s.begin);
    if (!first) at->second = std::min(at->second, s.begin);
  }
  for (auto& [node, times] : full) times.close();
  for (const auto& [nodes, by_size] : messages)
    for (const auto& [bytes, list] : by_size) o.links[nodes][bytes] = under_way(list, full[nodes.second]);
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
