#include "actors/control/controller/job_recovery.hpp"

#include <algorithm>
#include <utility>

namespace troupe::control {

job_recovery::assessment job_recovery::assess(const std::string& why, const membership& cluster,
                                              const std::vector<std::string>& nodes, const std::set<std::string>& drained) {
  assessment a;
  a.loss.why = why;
  for (const auto& [name, m] : cluster.all())
    if (!m.up || m.hung || (m.leaving && name != cluster.self()) || failures_.apart.contains(name)) a.down.insert(name);
  for (const auto& n : nodes) {
    const auto& m = cluster.at(n);
    const bool gone = !m.up || m.hung;
    if (gone) a.loss.gone.insert(n);
    if (a.down.contains(n)) a.loss.without.insert(n);
    if (gone || failures_.apart.contains(n) || without_roles_.contains(n)) a.loss.silent.insert(n);
  }
  failures_.clear_all();
  for (const auto& n : a.down)
    if (!drained.contains(n)) failures_.away.insert(n);
  return a;
}

bool job_recovery::may_restart_roles(std::uint64_t step) {
  if (role_failed_ && step <= *role_failed_) return false;
  role_failed_ = step;
  return true;
}

void job_recovery::await(const std::string& node, const std::string& why, instant now) {
  if (!rejoins_) rejoins_ = rejoining{{}, why, now};
  rejoins_->awaited.insert(node);
}

void job_recovery::joined(const std::string& node, bool with_roles) {
  if (with_roles) without_roles_.erase(node);
  if (rejoins_) rejoins_->awaited.erase(node);
}

void job_recovery::back(const std::string& node) {
  failures_.not_now.erase(node);
  failures_.apart.erase(node);
}

void job_recovery::restore(std::vector<set_value> settings, bool paused, std::uint64_t reached) {
  settings_ = std::move(settings);
  paused_ = role_pauses_ = paused;
  reached_ = reached;
}

std::uint64_t job_recovery::steps_again(std::uint64_t step, std::uint64_t from) {
  const auto reached = std::max(step, std::exchange(reached_, 0));
  return reached > from ? reached - from : 0;
}

}  // namespace troupe::control
