#include "runtime/cluster/controller/controlled_job.hpp"

#include "runtime/cluster/controller/journal.hpp"
#include "runtime/record/job_owner.hpp"

namespace troupe::control {

bool controlled_job::has_part(const std::string& node) const {
  return uses(node) || (plans.next() && plans.next()->uses(node)) || run.awaited().contains(node);
}

job_state controlled_job::state() const {
  using phase = job_run::phase;
  switch (run.at()) {
    case phase::checking: return job_state::checking;
    case phase::receiving: return job_state::receiving;
    case phase::queued: return job_state::queued;
    case phase::gathering: return job_state::gathering;
    case phase::preparing: return job_state::preparing;
    case phase::running: return run.stopping() ? job_state::stopping : run.paused() ? job_state::paused : job_state::running;
    case phase::ending: return job_state::ending;
    case phase::over: break;
  }
  return view.state;
}

job_activity controlled_job::doing() const {
  if (!run.runs()) return job_activity::none;
  if (recovery.rejoins()) return job_activity::rejoining;
  if (plans.recovers()) return job_activity::recovering;
  if (recovery.paused() && !run.paused() && !run.stopping()) return job_activity::pausing;
  if (const auto& n = plans.next()) return n->wish.is<drain_command>() ? job_activity::draining : job_activity::moving;
  return job_activity::none;
}

controlled_job& job_table::add(std::uint32_t id) {
  auto& j = jobs_[id];
  j.id = id;
  j.view.id = number_of(id);
  return j;
}

controlled_job* job_table::find(std::uint32_t id) {
  const auto at = jobs_.find(id);
  return at == jobs_.end() ? nullptr : &at->second;
}

const controlled_job* job_table::find(std::uint32_t id) const { return const_cast<job_table*>(this)->find(id); }

controlled_job* job_table::find_either(std::uint32_t id) {
  for (auto& [found, j] : jobs_)
    if (found == id || number_of(found) == id) return &j;
  return nullptr;
}

const controlled_job* job_table::find_either(std::uint32_t id) const { return const_cast<job_table*>(this)->find_either(id); }

bool job_table::has_number(std::uint32_t number) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& j) { return number_of(j.first) == number; });
}

void job_table::forget_old(const std::set<std::uint32_t>& but) {
  std::vector<std::uint32_t> over;  // the newest first
  std::vector<std::string> owners;
  for (auto at = jobs_.rbegin(); at != jobs_.rend(); ++at) {
    if (!at->second.run.over()) continue;
    over.push_back(at->first);
    owners.push_back(at->second.view.owner);
  }
  for (const auto i : surplus(owners, finished_kept))
    if (!but.contains(over[i])) jobs_.erase(over[i]);
}

}  // namespace troupe::control
