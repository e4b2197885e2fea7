// Traffic of a plan by node, per training step of bsp: the bytes of cost_of() without its list of
// links, of which a plan with a shard on every node has nodes x nodes. These functions take time
// and memory proportional to roles, edges and blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/plan.hpp"

namespace troupe {

struct node_traffic {
  std::vector<double> sent, received;  // by node; what stays on a node is not counted
  explicit node_traffic(std::size_t nodes) : sent(nodes, 0), received(nodes, 0) {}
  void add(std::uint32_t from, std::uint32_t to, double amount) {
    if (from == to) return;
    sent[from] += amount;
    received[to] += amount;
  }
};

node_traffic bytes_by_node(const job_plan& p, const model_graph& g, const job_spec& job);
// Messages with sums and weights.
node_traffic messages_by_node(const job_plan& p);

}  // namespace troupe
