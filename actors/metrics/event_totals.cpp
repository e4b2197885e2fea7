#include "actors/metrics/event_totals.hpp"

#include <algorithm>
#include <cmath>

#include "actors/view/events.hpp"

namespace troupe {
namespace {

constexpr std::size_t max_kinds = 32;

void note_step(job_totals& t, const event_effect& e, job_totals::wall_time now) {
  ++t.steps;
  t.last_step_at = now;
  for (const auto& [name, value] : e.values) {
    if (name == "loss") t.loss = value;
    if (name == "examples_per_s") t.examples_per_s = value;
    if (name == "lr") t.lr = value;
    if (name == "skipped") {
      const auto n = static_cast<std::uint64_t>(std::max(value, 0.0));
      if (t.skipped_before + n < t.skipped) t.skipped_before = t.skipped;
      t.skipped = t.skipped_before + n;
    }
    if (name == "step_seconds" && std::isfinite(value)) {
      const auto bin = std::lower_bound(step_bounds.begin(), step_bounds.end(), value) - step_bounds.begin();
      ++t.step_times[static_cast<std::size_t>(bin)];
      t.step_seconds += std::max(value, 0.0);
    }
  }
}

void note_eval(job_totals& t, const event_effect& e) {
  for (const auto& [name, value] : e.values) {
    if (name == "loss") t.eval_loss = value;
    if (name == "accuracy") t.best_accuracy = std::max(t.best_accuracy.value_or(value), value);
  }
}

double milliseconds_of(const event_effect& e) {
  for (const auto& [name, value] : e.values)
    if (name == "ms") return value;
  return 0;
}

}  // namespace

job_totals& event_totals::of(std::uint32_t job) {
  const auto [at, fresh] = jobs_.try_emplace(job);
  if (fresh) at->second.begun = std::chrono::system_clock::now();
  while (jobs_.size() > max_jobs_exported) jobs_.erase(jobs_.begin() == at ? std::next(at) : jobs_.begin());
  return at->second;
}

void event_totals::event(std::uint32_t job, const event_effect& e) {
  if (e.kind == not_reported) return;
  const auto now = std::chrono::system_clock::now();
  std::lock_guard guard(lock_);
  auto& t = of(job);
  t.step = e.step;
  const bool known = t.events.contains(e.kind) || t.events.size() < max_kinds;
  ++t.events[known ? e.kind : "other"];
  if (e.kind == "step") note_step(t, e, now);
  if (e.kind == "eval") note_eval(t, e);
  if (e.kind == "paused" || e.kind == "resumed") t.state = e.kind == "paused" ? "paused" : "running";
  if (e.kind == "paused") t.examples_per_s = 0;
  if (e.kind == "recovered") {
    ++t.recoveries;
    t.recovery_seconds += milliseconds_of(e) / 1000;
  }
  if (e.kind == "recovered" || e.kind == "moved") ++t.plan_changes;
  if (e.kind == "checkpoint") {
    ++t.saved;
    t.saved_step = e.step;
    t.saved_at = now;
  }
  if (e.kind == "alert" && e.text.starts_with(checkpoint_not_saved)) ++t.unsaved;
  if (e.kind == "done") t.state = e.text == "stopped" ? "stopped" : "done";
  if (e.kind == "preempted") t.state = "preempted";
  if (e.kind == "error") t.state = "failed";
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
