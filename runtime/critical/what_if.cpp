#include "runtime/critical/what_if.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/median.hpp"
#include "runtime/sim/world.hpp"

namespace troupe {
namespace {

constexpr std::uint64_t steps_before = 8, steps_measured = 40;
// Of the trace's step, which has pauses that the simulation lacks.
constexpr double close_enough = 0.97;
constexpr std::uint64_t most_events = 20'000'000;  // of one simulation

duration scaled(duration d, double factor) { return duration(std::llround(static_cast<double>(d.count()) * factor)); }

// The time of a message of this size: that which a fifth of the messages of the nearest size did
// not exceed. The receiving role may have been busy.
duration time_of(const std::map<std::uint64_t, std::vector<duration>>& by_size, std::uint64_t bytes) {
  auto at = by_size.lower_bound(bytes);
  if (at == by_size.end() || (at != by_size.begin() && bytes - std::prev(at)->first < at->first - bytes)) --at;
  auto times = at->second;
  const auto fifth = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 5);
  std::nth_element(times.begin(), fifth, times.end());
  return *fifth;
}

// Hands out the times of a list in turn.
class times_in_turn {
 public:
  explicit times_in_turn(const std::vector<duration>* all) : all_(all) {}
  duration next() { return (*all_)[at_++ % all_->size()]; }

 private:
  const std::vector<duration>* all_;
  std::size_t at_ = 0;
};

}  // namespace

what_if::what_if(std::shared_ptr<const prepared_job> j, observed_run seen, unsigned threads)
    : job_(std::move(j)), seen_(std::move(seen)), threads_(threads) {
  calibrate();
}

void what_if::calibrate() {
  const auto takes = [&](duration local) { return simulate({}, local).value_or(0); };
  local_ = {};
  simulated_ = takes(local_);
  const auto target = close_enough * seen_.step_seconds;
  if (simulated_ <= 0 || simulated_ >= target) return;
  // A message within a node is on the way of every step at least once. If messages that take all
  // that is missing do not suffice, the step does not wait for them, and they count as immediate.
  duration low{}, high = std::chrono::duration_cast<duration>(std::chrono::duration<double>(target - simulated_));
  if (takes(high) < target) return;
  for (int i = 0; i < 14; ++i) {
    const auto middle = low + (high - low) / 2;
    (takes(middle) < target ? low : high) = middle;
  }
  local_ = low;
  simulated_ = takes(low);
}

std::optional<double> what_if::step_seconds(const faster_work& f) const { return simulate(f, local_); }

std::optional<double> what_if::simulate(const faster_work& f, duration local) const {
  sim::world_config c;
  c.network.least = c.network.most = duration{};
  c.network.local = local;
  c.network.shuffle_local = false;
  c.compute.cores = threads_;
  for (const auto& n : job_->plan.nodes) c.node_names.push_back(n.name);
  sim::world world(c);
  for (const auto& r : job_->plan.roles) world.add(r.id, r.node, make_role(job_, r.id), r.device);

  std::map<std::pair<role_id, std::string>, times_in_turn> times;
  world.measured = [&](role_id r, const task_cost& cost) -> std::optional<duration> {
    const auto& name = job_->plan[r].name;
    const auto all = seen_.tasks.find({name, cost.kind});
    if (all == seen_.tasks.end()) return duration{};
    const auto one = times.try_emplace({r, cost.kind}, &all->second).first->second.next();
    const auto factor = f.roles.find(name);
    return factor == f.roles.end() ? one : scaled(one, factor->second);
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::map<std::uint64_t, duration>> crossings;
  world.crossing = [&](std::uint32_t from, std::uint32_t to, std::uint64_t bytes) -> std::optional<duration> {
    const auto [known, first] = crossings[{from, to}].try_emplace(bytes);
    if (!first) return known->second;
    const std::pair nodes{job_->plan.nodes[from].name, job_->plan.nodes[to].name};
    const auto seen = seen_.links.find(nodes);
    if (seen == seen_.links.end()) return known->second = {};
    const auto factor = f.links.find(nodes);
    return known->second = scaled(time_of(seen->second, bytes), factor == f.links.end() ? 1 : factor->second);
  };
  std::optional<time_point> begun, ended;
  const auto first = job_->first_step + steps_before, last = first + steps_measured;
  world.on_event = [&](const event_effect& e) {
    if (!e.is<step_event>()) return;
    if (e.step == first) begun = world.now();
    if (e.step == last) ended = world.now();
  };
  envelope go;
  go.h.job = job_->id;
  go.h.dst = role_id{0};
  go.body = start{};
  world.inject(std::move(go));
  world.run(most_events, [&] { return ended.has_value(); });
  if (!begun || !ended) return std::nullopt;
  return seconds_of(*ended - *begun) / static_cast<double>(steps_measured);
}

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
