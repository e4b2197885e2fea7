// Reducer `nccl`: the GPUs of a node add their sums by NCCL, and the nodes' sums travel as those of
// `hierarchical`. NCCL adds in an order of its own, so the weights are not those of other reducers,
// nor those of other numbers of GPUs: it needs `deterministic = false`.
#include "ops/device_descriptors.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/reduce/device_reducer.hpp"
#include "runtime/reduce/levels.hpp"
#include "runtime/reduce/stock.hpp"
#include "runtime/reduce/sum_reducer.hpp"

namespace troupe {
namespace {

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
