// Which device of its node a role computes on. What belongs to one worker is on one device, so that
// between its stages nothing crosses; workers and shards of a node are dealt over its devices in
// turn. Who serves everybody is on the node's first.
#include <map>
#include <utility>

#include "ops/device_descriptors.hpp"
#include "runtime/plan/plan_draft.hpp"

namespace troupe {

void deal_devices(job_plan& plan) {
  std::vector<std::vector<std::uint32_t>> offered;
  for (const auto& n : plan.nodes) offered.push_back(different_devices(n.devices));
  std::vector<std::map<std::uint32_t, std::uint32_t>> workers(plan.nodes.size());  // by node: number of a worker among those there
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
