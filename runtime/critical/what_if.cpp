#include "runtime/critical/what_if.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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

}  // namespace troupe
