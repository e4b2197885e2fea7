// Assigns roles to devices of their nodes. All roles of one worker use the same device, so that
// nothing is copied between devices from stage to stage. A place of the job file names the device
// of its roles; other workers and shards of a node are dealt over its devices round-robin. Roles
// that serve several workers use the node's first device.
#include <algorithm>

#include "ops/device_descriptors.hpp"
#include "runtime/plan/plan_draft.hpp"

namespace troupe {
namespace {

// By node: indices of its distinct devices.
std::vector<std::vector<std::uint32_t>> offered_devices(const plan_draft& draft) {
  std::vector<std::vector<std::uint32_t>> offered;
  for (const auto& n : draft.plan.nodes) offered.push_back(different_devices(n.devices));
  return offered;
}

// Deals the devices of each node in turn.
class dealer_of_devices {
 public:
  explicit dealer_of_devices(std::vector<std::vector<std::uint32_t>> offered)
      : offered_(std::move(offered)), turns_(offered_.size()) {}
  std::uint32_t next(std::uint32_t node) {
    const auto& devices = offered_[node];
    return devices.empty() ? 0 : devices[turns_[node]++ % devices.size()];
  }

 private:
  std::vector<std::vector<std::uint32_t>> offered_;
  std::vector<std::size_t> turns_;
};

}  // namespace

void assign_worker_devices(plan_draft& draft) {
  dealer_of_devices dealer(offered_devices(draft));
  for (auto node : draft.colocated) draft.worker_devices.push_back(dealer.next(node));
}

// Workers on one device share its speed.
std::vector<double> worker_speeds(const plan_draft& draft) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> users;
  for (std::size_t w = 0; w < draft.colocated.size(); ++w) ++users[{draft.colocated[w], draft.worker_devices[w]}];
  std::vector<double> speeds;
  for (std::size_t w = 0; w < draft.colocated.size(); ++w) {
    const auto node = draft.colocated[w], device = draft.worker_devices[w];
    const auto& stated = draft.nodes[node].tflops;
    speeds.push_back(device < stated.size() ? stated[device] / users.at({node, device}) : 1.0);
  }
  return speeds;
}

void deal_devices(plan_draft& draft) {
  dealer_of_devices shards(offered_devices(draft)), hosts(offered_devices(draft));
  for (auto node : draft.colocated) hosts.next(node);  // their turns come after those of the data-parallel workers
  std::map<std::uint32_t, std::uint32_t> of_host;      // by worker
  for (auto& r : draft.plan.roles) {
    const bool of_worker = !r.tester && (r.does().passes_packets || r.does().adds == role_sums::of_others);
    if (const auto named = draft.named_devices.find(r.id); named != draft.named_devices.end())
      r.device = named->second;
    else if (r.does().owns_parameters)
      r.device = shards.next(r.node);
    else if (of_worker && r.worker < draft.worker_devices.size())
      r.device = draft.worker_devices[r.worker];
    else if (of_worker) {
      const auto [at, fresh] = of_host.try_emplace(r.worker, 0);
      if (fresh) at->second = hosts.next(r.node);
      r.device = at->second;
    }
  }
}

}  // namespace troupe
