// Reducer `nccl`: the GPUs of a node add their sums by NCCL, and the nodes' sums travel as those of
// `hierarchical`. NCCL adds in an order of its own, so the weights are not those of other reducers,
// nor those of other numbers of GPUs: it needs `deterministic = false`.
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "ops/device.hpp"
#include "ops/device_descriptors.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/reduce/levels.hpp"
#include "runtime/reduce/passing_reducer.hpp"
#include "runtime/reduce/stock.hpp"
#include "runtime/reduce/sum_reducer.hpp"

namespace troupe {
namespace {

// The reducer of a node whose workers leave their sums on their own devices: it adds all sums of a
// block and step in one call of device::sum_across (on GPUs: NCCL), and passes the result up.
//
// Invariant: a sum is sent once all packets of the node's workers are in it. Its bits depend on the
// device and on the number of workers, not on the order of arrival.
class device_reducer final : public passing_reducer {
 public:
  explicit device_reducer(reducer_config c);

 private:
  struct gathering {
    std::map<std::uint32_t, tensor> parts;  // by first packet
    std::uint32_t packets = 0;
  };

  void add(const header& h, const push& p, effects& out) override;
  void forget(std::uint32_t block, std::uint64_t before) override;
  std::size_t open() const override;

  std::map<role_id, std::vector<tree_node>> sent_;        // by role below: the sums that it sends of a block and step
  std::uint32_t packets_ = 0;                             // of the workers below
  tree_node whole_;                                       // these packets
  std::vector<std::map<std::uint64_t, gathering>> open_;  // by block, step
};

device_reducer::device_reducer(reducer_config c) : passing_reducer(std::move(c)) {
  const auto covered = plan().covered(self());
  packets_ = covered.count;
  whole_ = cover(covered.first, covered.count, plan().packets).front();
  for (auto r : plan().below(self())) {
    const auto theirs = plan()[r].does().adds == role_sums::of_others ? plan().covered(r) : plan().range_of(plan()[r].worker);
    sent_[r] = cover(theirs.first, theirs.count, plan().packets);
  }
  open_.resize(plan().blocks.size());
}

void device_reducer::add(const header& h, const push& p, effects& out) {
  const auto& nodes = sent_.at(h.src);  // passing_reducer takes pushes from roles below only
  if (std::find(nodes.begin(), nodes.end(), tree_node{p.first, p.span}) == nodes.end()) return drop(drop_reason::malformed);
  auto& open = open_[p.block];
  if (open.size() >= max_open_steps && !open.count(h.step)) return drop(drop_reason::unexpected);
  auto& g = open[h.step];
  if (!g.parts.emplace(p.first, p.sum).second) return drop(drop_reason::repeated);
  g.packets += std::min(p.span, plan().packets - p.first);
  if (g.packets < packets_) return;
  tensors parts;
  for (auto& [first, part] : g.parts) parts.push_back(std::move(part));
  open.erase(h.step);
  leaves(p.block, h.step);
  const auto sum = std::make_shared<tensors>(1, tensor::declare(parts[0].dims(), parts[0].type()));
  const task_cost cost{0, static_cast<double>(parts.size() + 1) * static_cast<double>(parts[0].bytes()), "add"};
  run_and_send(
      p.block, h.step, whole_, sum,
      [sum, parts = std::move(parts)](task_context& c) {
        (*sum)[0].back(c.dev);
        c.dev.sum_across(parts, (*sum)[0]);
      },
      cost, out);
}

void device_reducer::forget(std::uint32_t block, std::uint64_t before) {
  auto& open = open_[block];
  open.erase(open.begin(), open.lower_bound(before));
}

std::size_t device_reducer::open() const {
  std::size_t n = 0;
  for (const auto& steps : open_) n += steps.size();
  return n;
}

expected<void> check(const job_spec& j, const job_plan& plan) {
  if (j.train.deterministic)
    return unexpected(
        error("adds in an order that depends on the number of GPUs: set deterministic = false, or use \"hierarchical\""));
  for (auto w : plan.workers) {
    const auto& r = plan[w];
    const auto& devices = plan.nodes[r.node].devices;
    if (parse_device(devices[r.device]).kind != "gpu")
      return unexpected(error("adds on GPUs, but " + r.name + " computes on " + devices[r.device] + " of node " +
                              in_quotes(plan.nodes[r.node].name)));
  }
  for (auto id : plan.reducers) {
    const auto packets = plan.covered(id);
    const auto& node = plan.nodes[plan[id].node].name;
    if (cover(packets.first, packets.count, plan.packets).size() > 1)
      return unexpected(
          error("sends one sum of a node, but the packets of node " + in_quotes(node) + " (" + std::to_string(packets.first) +
                " to " + std::to_string(packets.first + packets.count - 1) +
                ") are not one node of the packet tree: use numbers of nodes, workers and packets that are powers of two"));
  }
  return {};
}

std::unique_ptr<role> make_role(reducer_config c) {
  if ((*c.plan)[c.self].across) return std::make_unique<device_reducer>(std::move(c));
  return std::make_unique<sum_reducer>(std::move(c));
}

}  // namespace

reducer_descriptor nccl_reducer() {
  return {.name = "nccl",
          .doc =
              "The workers of a node, one on each GPU, sum by NCCL, and the nodes' sums travel as `between` says. Needs "
              "`deterministic = false`.",
          .specs = level_options(),
          .places = place_levels,
          .lay_out = [](const options& o, reducer_layout& l) { lay_out_levels(o, l, true); },
          .check = check,
          .make = make_role};
}

}  // namespace troupe
