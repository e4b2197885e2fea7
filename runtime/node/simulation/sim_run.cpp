#include "runtime/node/simulation/sim_run.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <thread>

#include "runtime/sim/shrink.hpp"

namespace troupe::sim {
namespace {

constexpr std::size_t max_shrinking_runs = 400;

std::string text_in(const heard_event& e, const std::string& key) {
  for (const auto& [k, v] : e.texts)
    if (k == key) return v;
  return {};
}

// Collects the result of one run.
class observer final : public daemon_watcher {
 public:
  observer(sim_cluster& c, const run_options& o, run_result& r) : cluster_(c), options_(o), result_(r) {
    c.watch = this;
    c.on_event = [this](const heard_event& e) { heard(e); };
    c.on_refusal = [this](const std::string& why) {
      result_.how = run_result::end::refused;
      result_.text = why;
    };
    c.plan(o.faults);
    c.on_fault = [this](const happening& h) {
      recoveries_.fault(cluster_.hosts().now());
      if (options_.on_fault) options_.on_fault(h, cluster_.hosts().now());
    };
  }
  void on_order(const control::order& o) override {
    const auto now = cluster_.hosts().now();
    if (std::holds_alternative<control::begin_job>(o) && !std::exchange(begun_, true)) begin(now);
    if (const auto* done = recoveries_.take(o, now); done && options_.on_recovery) options_.on_recovery(*done);
  }
  const std::vector<recovery>& recoveries() const { return recoveries_.all(); }
  // The run is given up then, unless its client hears something before.
  time_point patience_until() const { return std::min(options_.most, heard_at_ + std::chrono::minutes(10) + 20 * longest_step_); }

 private:
  void begin(time_point now) {
    result_.begun = now;
    if (options_.on_begin) options_.on_begin(now);
  }
  void heard(const heard_event& e) {
    heard_at_ = e.when;
    if (e.kind == "step") {
      if (last_step_) longest_step_ = std::max(longest_step_, e.when - last_step_->second);
      if (last_step_ && e.step == last_step_->first + 1) result_.step_seconds.push_back(seconds_of(e.when - last_step_->second));
      last_step_ = {e.step, e.when};
      if (!result_.first_step) result_.first_step = e.when;
      result_.last_step = e.when;
    }
    if (e.kind == "recovered" || e.kind == "moved") last_step_.reset();
    if (is_last(e)) {
      result_.how = e.kind == "done" ? run_result::end::done : run_result::end::failed;
      result_.text = e.text;
      result_.steps = e.step;
      result_.over = e.when;
      result_.weights_sha256 = text_in(e, "weights_sha256");
    }
    if (options_.on_event) options_.on_event(e);
  }

  sim_cluster& cluster_;
  const run_options& options_;
  run_result& result_;
  recovery_log recoveries_;
  bool begun_ = false;
  time_point heard_at_{};
  duration longest_step_{};
  std::optional<std::pair<std::uint64_t, time_point>> last_step_;
};

}  // namespace

std::uint64_t run_result::steps_again() const {
  std::uint64_t n = 0;
  for (const auto& r : recoveries) n += r.what.steps_again;
  return n;
}

double run_result::mean_step() const {
  if (step_seconds.empty()) return 0;
  return std::accumulate(step_seconds.begin(), step_seconds.end(), 0.0) / static_cast<double>(step_seconds.size());
}

double run_result::goodput() const {
  const auto took = first_step ? seconds_of(*last_step - *first_step) : 0;
  return took > 0 && steps > 0 ? std::min(1.0, static_cast<double>(steps - 1) * mean_step() / took) : 0;
}

run_result run_cluster(const cluster_config& c, const run_options& o) {
  run_result r;
  sim_cluster cluster(c);
  observer seen(cluster, o, r);
  while (!cluster.ended() && cluster.hosts().now() < seen.patience_until()) {
    if (o.stops && o.stops()) {
      r.how = run_result::end::cut_short;
      break;
    }
    if (!cluster.step()) break;
  }
  if (!cluster.ended()) r.over = cluster.hosts().now();
  if (!cluster.ended() && r.how == run_result::end::hung) r.text = "the job is not over: " + cluster.waits();
  r.recoveries = seen.recoveries();
  r.events = cluster.hosts().events();
  r.counts = cluster.hosts().counts();
  return r;
}

storm_shape storm_for(const run_result& calm, std::uint32_t nodes) {
  storm_shape shape;
  shape.nodes = nodes;
  shape.from = {};
  shape.span = (calm.last_step.value_or(calm.over) - calm.begun) * 5 / 4;
  return shape;
}

std::string judged(const run_result& r, const run_result& calm, bool same_bits) {
  switch (r.how) {
    case run_result::end::hung: return r.text;
    case run_result::end::refused: return "the job was refused: " + r.text;
    case run_result::end::failed: return r.text.empty() ? "the job failed without a reason" : std::string();
    case run_result::end::cut_short: return {};
    case run_result::end::done: break;
  }
  if (same_bits && r.weights_sha256 != calm.weights_sha256)
    return "the weights differ from those of the run without faults, after " + std::to_string(r.recoveries.size()) + " recoveries";
  return {};
}

seeds_result run_seeds(const cluster_config& c, const seeds_request& q) {
  seeds_result all;
  const auto calm = run_cluster(c, {.most = q.most, .stops = q.stops});
  if (calm.how != run_result::end::done) {
    all.wrong = "the run without faults: " + calm.text;
    all.wrong_seed = q.first;
    return all;
  }
  const auto run_with = [&](std::uint64_t seed, const std::vector<happening>& faults) {
    auto mine = c;
    mine.world.seed = seed;
    return run_cluster(mine, {.faults = faults, .most = q.most, .stops = q.stops});
  };
  std::mutex lock;
  std::uint64_t next = q.first;
  const auto work = [&] {
    for (;;) {
      std::uint64_t seed = 0;
      {
        const std::lock_guard guard(lock);
        if (next > q.last || !all.wrong.empty() || (q.stops && q.stops())) return;
        seed = next++;
      }
      const auto faults = q.faults(seed, calm);
      const auto r = run_with(seed, faults);
      const auto wrong = judged(r, calm, q.same_bits);
      const std::lock_guard guard(lock);
      ++all.runs;
      all.done += r.how == run_result::end::done ? 1 : 0;
      all.failed += r.how == run_result::end::failed ? 1 : 0;
      all.recoveries += r.recoveries.size();
      all.steps_again += r.steps_again();
      if (wrong.empty() || (!all.wrong.empty() && all.wrong_seed < seed)) continue;
      all.wrong = wrong;
      all.wrong_seed = seed;
      all.faults = faults;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < std::max(1u, q.threads); ++t) threads.emplace_back(work);
  work();
  for (auto& t : threads) t.join();
  all.faults_before = all.faults.size();
  if (all.wrong.empty() || all.faults.empty()) return all;
  all.faults = shrink(
      all.faults,
      [&](const std::vector<happening>& fewer) {
        ++all.shrinking_runs;
        return !judged(run_with(all.wrong_seed, fewer), calm, q.same_bits).empty();
      },
      max_shrinking_runs);
  return all;
}

const recovery* recovery_log::take(const control::order& o, time_point now) {
  const auto* f = std::get_if<control::followed_event>(&o);
  if (!f) return nullptr;
  const auto& e = f->what.event;
  if (const auto* done = e.as<recovered_event>()) {
    recovery r{*done, e.step, std::nullopt, now - duration(std::llround(1e6 * done->ms)), now, std::nullopt};
    const auto after = std::upper_bound(faults_.begin(), faults_.end(), r.noticed);
    if (after != faults_.begin()) r.failed = *std::prev(after);
    faults_.erase(faults_.begin(), after);
    all_.push_back(std::move(r));
  } else if (!all_.empty() && !all_.back().stepped && (e.is<step_event>() || ends_job(e))) {
    all_.back().stepped = now;
    return &all_.back();
  }
  return nullptr;
}

}  // namespace troupe::sim
