#include "actors/control/controller/controlled_job.hpp"

#include "actors/control/controller/journal.hpp"

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
  if (const auto& n = plans.next()) return n->wish.is<drain_command>() ? job_activity::draining : job_activity::moving;
  return recovery.paused() && !run.paused() && !run.stopping() ? job_activity::pausing : job_activity::none;
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
  const auto is_over = [](const auto& j) { return j.second.run.over(); };
  auto over = static_cast<std::size_t>(std::count_if(jobs_.begin(), jobs_.end(), is_over));
  for (auto at = jobs_.begin(); over > finished_kept && at != jobs_.end();) {
    const bool old = is_over(*at) && !but.contains(at->first);
    at = old ? jobs_.erase(at) : std::next(at);
    over -= old ? 1 : 0;
  }
}

}  // namespace troupe::control
