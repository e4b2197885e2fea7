#include "runtime/cluster/controller/job_recovery.hpp"

#include <algorithm>
#include <utility>

namespace troupe::control {

namespace {

// Why the next plan does not use this node.
std::string why_without(const std::string& name, const node_state& n) {
  if (!n.up) return "node " + name + " is lost";
  if (n.hung) return "a task on node " + name + " does not end";
  return n.leaving ? "node " + name + " shuts down" : "other nodes cannot reach " + name;
}

}  // namespace

job_recovery::assessment job_recovery::assess(failure_cause cause, const membership& cluster, const std::vector<std::string>& nodes,
                                              const std::set<std::string>& drained) {
  assessment a;
  for (const auto& [name, m] : cluster.all())
    if (!m.up || m.hung || (m.leaving && name != cluster.self()) || failures_.apart.contains(name)) a.down.insert(name);
  for (const auto& n : nodes) {
    const auto& m = cluster.at(n);
    const bool gone = !m.up || m.hung;
    if (gone) a.loss.gone.insert(n);
    if (a.down.contains(n)) a.loss.without.insert(n);
    if (gone || failures_.apart.contains(n) || without_roles_.contains(n)) a.loss.silent.insert(n);
  }
  for (const auto& n : a.loss.without)
    if (!cause.nodes.contains(n)) cause.add({why_without(n, cluster.at(n)), {n}});
  static_cast<failure_cause&>(a.loss) = std::move(cause);
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

void job_recovery::joined(const std::string& node, bool with_roles) {
  if (with_roles) without_roles_.erase(node);
  if (rejoins_) rejoins_->awaited.erase(node);
}

void job_recovery::back(const std::string& node) {
  failures_.not_now.erase(node);
  failures_.apart.erase(node);
}

void job_recovery::uses_all_but(const std::set<std::string>& without) {
  std::erase_if(failures_.away, [&](const auto& n) { return !without.contains(n); });
}

bool job_recovery::stays_away(const std::string& node) {
  if (failures_.away.erase(node) == 0) return false;
  back(node);
  return true;
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
