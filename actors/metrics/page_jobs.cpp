// Jobs and the nodes of the cluster.
#include <algorithm>
#include <array>

#include "actors/metrics/exposition.hpp"
#include "actors/metrics/page.hpp"
#include "runtime/cluster/view/about.hpp"
#include "runtime/cluster/view/job_progress.hpp"

namespace troupe {
namespace {

constexpr std::array node_states{"up", "leaving", "hung", "absent", "lost"};

double seconds_since_1970(std::chrono::system_clock::time_point t) {
  return std::chrono::duration<double>(t.time_since_epoch()).count();
}

// Jobs that are not over first, then the newest of the others; at most max_jobs_exported.
std::vector<const repl_job*> shown_jobs(const std::vector<repl_job>& all) {
  std::vector<const repl_job*> list;
  for (const auto& j : all) list.push_back(&j);
  std::stable_sort(list.begin(), list.end(), [](const repl_job* a, const repl_job* b) {
    if (a->over() != b->over()) return b->over();
    return a->over() ? a->id > b->id : a->id < b->id;
  });
  if (list.size() > max_jobs_exported) list.resize(max_jobs_exported);
  return list;
}

void add_progress(exposition& x, const std::string& id, const repl_job& j, const job_totals& t) {
  x.add("troupe_job_steps_total", {id}, real(t.steps));
  if (j.about && j.about->batch > 0) x.add("troupe_job_examples_total", {id}, real(t.steps) * real(j.about->batch));
  x.add("troupe_job_skipped_steps_total", {id}, real(t.skipped));
  x.add("troupe_job_step_seconds", {id}, step_bounds, t.step_times, t.step_seconds);
  for (const auto& [kind, n] : t.events) x.add("troupe_job_events_total", {id, kind}, real(n));
  x.add("troupe_job_recoveries_total", {id}, real(t.recoveries));
  x.add("troupe_job_recovery_seconds_total", {id}, t.recovery_seconds);
  x.add("troupe_job_plan_changes_total", {id}, real(t.plan_changes));
  x.add("troupe_job_checkpoints_total", {id, "saved"}, real(t.saved));
  x.add("troupe_job_checkpoints_total", {id, "failed"}, real(t.unsaved));
  if (t.saving_seconds >= 0) x.add("troupe_job_checkpoint_seconds", {id}, t.saving_seconds);
  if (t.eval_loss) x.add("troupe_job_eval_loss", {id}, *t.eval_loss);
  if (const auto best = t.best.best()) x.add("troupe_job_best_accuracy_ratio", {id}, *best->accuracy);
  if (t.lr) x.add("troupe_job_learning_rate", {id}, *t.lr);
  if (t.steps == 0) return;
  x.add("troupe_job_loss", {id}, t.loss);
  x.add("troupe_job_last_step_timestamp_seconds", {id}, seconds_since_1970(t.last_step_at));
}

void add_checkpoint(exposition& x, const std::string& id, const repl_job& j, const job_totals& t,
                    std::chrono::system_clock::time_point now) {
  auto step = j.kept;
  auto age = std::chrono::duration<double>(j.kept_seconds);
  if (!step && t.saved > 0) {
    step = t.saved_step;
    age = now - t.saved_at;
  }
  if (!step) return;
  x.add("troupe_job_checkpoint_step", {id}, real(*step));
  x.add("troupe_job_checkpoint_age_seconds", {id}, std::max(age.count(), 0.0));
  x.add("troupe_job_checkpoint_timestamp_seconds", {id}, seconds_since_1970(now) - age.count());
}

void add_job(exposition& x, const repl_job& j, const job_totals& t, std::chrono::system_clock::time_point now) {
  const auto id = std::to_string(j.id);
  x.add("troupe_job_info", {id, j.name, j.owner}, 1);
  for (const auto* s : job_state_names) x.add("troupe_job_state", {id, s}, std::string_view(text_of(j.state)) == s ? 1 : 0);
  x.add("troupe_job_step", {id}, real(j.step));
  x.add("troupe_job_last_step", {id}, real(j.last_step));
  if (const auto epoch = epoch_of(j)) x.add("troupe_job_epoch", {id}, *epoch);
  if (j.accuracy >= 0) x.add("troupe_job_accuracy_ratio", {id}, j.accuracy);
  x.add("troupe_job_examples_per_second", {id}, j.over() ? 0 : j.examples_per_s);
  x.add("troupe_job_node_failures_total", {id}, real(j.node_failures));
  if (!j.over())
    for (const auto& s : j.stragglers) x.add("troupe_job_straggler_seconds", {id, s.role, s.node}, (s.step_ms - s.peers_ms) / 1000);
  if (j.steps_at_risk) x.add("troupe_job_steps_at_risk", {id}, real(*j.steps_at_risk));
  add_progress(x, id, j, t);
  add_checkpoint(x, id, j, t, now);
}

void add_node(exposition& x, const repl_node& n) {
  x.add("troupe_node_up", {n.name}, n.state == "up" || n.state == "leaving" ? 1 : 0);
  for (const auto* s : node_states) x.add("troupe_node_state", {n.name, s}, n.state == s ? 1 : 0);
  x.add("troupe_node_failures_total", {n.name}, real(n.node_failures));
  x.add("troupe_node_starts_total", {n.name}, real(n.lives));
  if (n.steps_at_risk) x.add("troupe_node_steps_at_risk", {n.name}, real(*n.steps_at_risk));
}

}  // namespace

void add_jobs(exposition& x, const metrics_facts& f) {
  if (!f.coordinates) return;
  for (const auto* s : job_state_names) {
    const auto n = std::count_if(f.view.jobs.begin(), f.view.jobs.end(),
                                 [&](const repl_job& j) { return std::string_view(text_of(j.state)) == s; });
    x.add("troupe_jobs", {s}, static_cast<double>(n));
  }
  const auto now = std::chrono::system_clock::now();
  for (const auto* j : shown_jobs(f.view.jobs)) {
    const auto t = f.totals.find(j->id);
    add_job(x, *j, t == f.totals.end() ? job_totals{} : t->second, now);
  }
  for (const auto& n : f.view.nodes) add_node(x, n);
}

}  // namespace troupe
