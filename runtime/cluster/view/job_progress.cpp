#include "runtime/cluster/view/job_progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "runtime/cluster/view/about.hpp"

namespace troupe {
namespace {

void note_step(repl_job& j, const step_event& e) {
  j.loss = e.loss;
  j.examples_per_s = e.examples_per_s;
  if (e.lr) j.lr = *e.lr;
  j.skipped = e.skipped;
}

// The steps after `step`, and evaluations of them, will be computed again.
void note_recovery(repl_job& j, std::uint64_t step) {
  j.step = step;
  if (!j.evaluated || *j.evaluated <= step) return;
  j.evaluated.reset();
  j.accuracy = -1;
}

void note_setting(repl_job& j, const std::string& key, double value, std::uint64_t from) {
  const auto before = setting_of(j, key);
  std::erase_if(j.settings, [&](const auto& s) { return s.key == key; });
  j.settings.push_back({key, value, before, from});
}

}  // namespace

void note_event(repl_job& j, const event_effect& e) {
  j.step = std::max(j.step, e.step);
  std::visit(overloaded{
                 [&](const step_event& s) { note_step(j, s); },
                 [&](const eval_event& v) {
                   j.evaluated = e.step;
                   if (v.accuracy) j.accuracy = *v.accuracy;
                 },
                 [&](const paused_event&) {
                   j.state = job_state::paused;
                   j.examples_per_s = 0;
                 },
                 [&](const resumed_event&) { j.state = job_state::running; },
                 [&](const recovered_event&) { note_recovery(j, e.step); },
                 [&](const mode_event& m) {
                   j.mode_before = mode_of(j);
                   j.mode = m.mode.text();
                 },
                 [&](const straggler_event& s) {
                   constexpr std::size_t most = 4;
                   std::erase_if(j.stragglers, [&](const auto& known) { return known.role == s.role && known.node == s.where; });
                   if (j.stragglers.size() == most) j.stragglers.erase(j.stragglers.begin());
                   j.stragglers.push_back({s.role, s.where, s.step_ms, s.peers_ms, e.step});
                 },
                 [&](const set_event& s) { note_setting(j, s.setting.first, s.setting.second, e.step); },
                 [](const auto&) {},
             },
             e.what);
}

void newest_checkpoint::note(const event_effect& e) {
  if (!e.is<checkpoint_event>()) return;
  step_ = e.step;
  at_ = std::chrono::steady_clock::now();
}

void newest_checkpoint::show(repl_job& j) const {
  if (!step_) return;
  j.kept = step_;
  j.kept_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - at_).count();
}

std::string mode_of(const repl_job& j) { return j.mode.empty() && j.about ? j.about->mode : j.mode; }

std::optional<double> setting_of(const repl_job& j, const std::string& key) {
  for (const auto& s : j.settings)
    if (s.key == key) return s.value;
  if (j.about && key == "train.dynamics.lr") return j.about->lr;
  if (j.about && key == "train.dynamics.decay") return j.about->decay;
  return std::nullopt;
}

std::optional<double> epoch_of(const repl_job& j) {
  if (!j.about || j.about->steps_per_epoch == 0) return std::nullopt;
  return static_cast<double>(j.step) / static_cast<double>(j.about->steps_per_epoch);
}

std::optional<double> seconds_left(const repl_job& j) {
  if (j.state != job_state::running || !j.about || j.last_step <= j.step || !(j.examples_per_s > 0)) return std::nullopt;
  return static_cast<double>(j.last_step - j.step) * static_cast<double>(j.about->batch) / j.examples_per_s;
}

std::uint64_t resident_memory() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return file ? resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace troupe
