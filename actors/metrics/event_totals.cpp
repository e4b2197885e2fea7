#include "actors/metrics/event_totals.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/cluster/view/events.hpp"

namespace troupe {
namespace {

void note_step(job_totals& t, const step_event& e, job_totals::wall_time now) {
  ++t.steps;
  t.last_step_at = now;
  t.loss = e.loss;
  t.examples_per_s = e.examples_per_s;
  if (e.lr) t.lr = *e.lr;
  if (e.skipped > 0) {
    if (t.skipped_before + e.skipped < t.skipped) t.skipped_before = t.skipped;
    t.skipped = t.skipped_before + e.skipped;
  }
  if (!std::isfinite(e.step_seconds)) return;
  const auto bin = std::lower_bound(step_bounds.begin(), step_bounds.end(), e.step_seconds) - step_bounds.begin();
  ++t.step_times[static_cast<std::size_t>(bin)];
  t.step_seconds += std::max(e.step_seconds, 0.0);
}

void note_eval(job_totals& t, const eval_event& e, std::uint64_t step) {
  t.eval_loss = e.loss;
  if (e.accuracy) t.best.note({step, e.accuracy, e.loss});
}

}  // namespace

job_totals& event_totals::of(std::uint32_t job) {
  const auto [at, fresh] = jobs_.try_emplace(job);
  if (fresh) at->second.begun = std::chrono::system_clock::now();
  while (jobs_.size() > max_jobs_exported) jobs_.erase(jobs_.begin() == at ? std::next(at) : jobs_.begin());
  return at->second;
}

void event_totals::event(std::uint32_t job, const event_effect& e) {
  if (only_answers(e)) return;
  const auto now = std::chrono::system_clock::now();
  std::lock_guard guard(lock_);
  auto& t = of(job);
  t.step = e.step;
  ++t.events[name_of(e).name];
  std::visit(overloaded{
                 [&](const step_event& s) { note_step(t, s, now); },
                 [&](const eval_event& v) { note_eval(t, v, e.step); },
                 [&](const paused_event&) { t.examples_per_s = 0; },
                 [&](const recovered_event& r) {
                   ++t.recoveries;
                   ++t.plan_changes;
                   t.recovery_seconds += r.ms / 1000;
                   t.best.go_back(e.step);
                 },
                 [&](const moved_event&) { ++t.plan_changes; },
                 [&](const checkpoint_event&) {
                   ++t.saved;
                   t.saved_step = e.step;
                   t.saved_at = now;
                 },
                 [&](const checkpoint_lost_event&) { ++t.unsaved; },
                 [](const auto&) {},
             },
             e.what);
}

void event_totals::saving(std::uint32_t job) {
  std::lock_guard guard(lock_);
  of(job).saving.push_back(std::chrono::steady_clock::now());
}

void event_totals::saved(std::uint32_t job, bool good) {
  std::lock_guard guard(lock_);
  auto& t = of(job);
  if (t.saving.empty()) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - t.saving.front();
  t.saving.pop_front();
  if (good) t.saving_seconds = took.count();
}

std::map<std::uint32_t, job_totals> event_totals::all() const {
  std::lock_guard guard(lock_);
  return jobs_;
}

}  // namespace troupe
