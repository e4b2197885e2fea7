// Assigns roles to devices of their nodes. All roles of one worker use the same device, so that
// nothing is copied between devices from stage to stage. Workers and shards of a node are dealt
// over its devices round-robin. Roles that serve several workers use the node's first device.
#include <map>
#include <utility>

#include "ops/device_descriptors.hpp"
#include "runtime/plan/plan_draft.hpp"

namespace troupe {

void deal_devices(job_plan& plan) {
  std::vector<std::vector<std::uint32_t>> offered;
  for (const auto& n : plan.nodes) offered.push_back(different_devices(n.devices));
  std::vector<std::map<std::uint32_t, std::uint32_t>> workers(
      plan.nodes.size());  // by node: the number of each worker on that node
  std::vector<std::uint32_t> shards(plan.nodes.size());
  for (auto& r : plan.roles) {
    const auto& devices = offered[r.node];
    if (devices.size() < 2) continue;
    std::uint32_t turn = 0;
    if (r.does().owns_parameters) turn = shards[r.node]++;
    const bool of_worker = r.does().passes_packets || r.does().adds == role_sums::of_others;
    if (of_worker && !r.tester) {
      auto& there = workers[r.node];
      turn = there.try_emplace(r.worker, static_cast<std::uint32_t>(there.size())).first->second;
    }
    r.device = devices[turn % devices.size()];
  }
}

}  // namespace troupe
