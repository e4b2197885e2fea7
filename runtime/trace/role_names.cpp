#include "runtime/trace/role_names.hpp"

#include <utility>

namespace troupe {

void role_names::set(const std::string& node, std::vector<activity_names> plans, duration shift) {
  for (auto& p : plans) p.since += shift;
  plans_[node] = std::move(plans);
}

role_names::named role_names::find(std::uint32_t job, role_id role, time_point at) const {
  named best;
  time_point since{};
  for (const auto& [node, plans] : plans_)
    for (const auto& p : plans) {
      const bool here = p.job == job && index_of(role) < p.roles.size() && !p.roles[index_of(role)].empty();
      if (here && (best.role.empty() || (p.since <= at && p.since >= since)))
        best = {node, p.roles[index_of(role)]}, since = p.since;
    }
  return best;
}

activity_place role_names::place(const std::string& node, const activity& a, duration shift) const {
  auto self = find(a.job, a.role, a.at + shift);
  if (self.role.empty()) self.role = "role " + std::to_string(index_of(a.role)) + " of job " + std::to_string(a.job);
  activity_place p{node, std::move(self.role), {}, {}};
  const bool has_peer = a.kind == activity::kind_of::received || a.kind == activity::kind_of::sent;
  if (!has_peer || a.peer == no_role) return p;
  auto peer = find(a.job, a.peer, a.at + shift);
  p.peer_node = std::move(peer.node);
  p.peer = std::move(peer.role);
  return p;
}

}  // namespace troupe
