// Cost of a plan: bytes between nodes per training step, and memory. Estimates for users and for
// placement; allocates nothing.
#include <algorithm>

#include "ops/tree/packet_tree.hpp"
#include "runtime/cost/plan_memory.hpp"
#include "runtime/plan/plan.hpp"

namespace troupe {
namespace {

const shape& shape_of(const model_graph& g, tensor_ref r) {
  if (r.layer == from_data) return r.output == 0 ? g.data : g.label;
  return g.layers[static_cast<std::size_t>(r.layer)].out[r.output];
}

using node_links = std::map<std::pair<std::uint32_t, std::uint32_t>, double>;

void add(node_links& links, std::uint32_t from, std::uint32_t to, double bytes) {
  if (from != to && bytes > 0) links[{from, to}] += bytes;
}

// Through reducers: each sends its sum to the role above it, and weights return the same way.
void add_reduced(const job_plan& p, dtype t, node_links& links) {
  const auto add_way = [&](role_id from, std::size_t sums, const param_block& b, role_id to) {
    const auto here = p[from].node, there = p[to].node;
    add(links, here, there, bytes_of(b.count, t) * static_cast<double>(sums));
    add(links, there, here, bytes_of(b.count, t));
  };
  for (auto r : p.reducers)
    for (const auto& b : p.blocks) {
      add_way(r, p.sums_up(r), b, p.above(r, b));
      for (auto from : p.below(r)) {
        if (p[from].does().adds != role_sums::of_packets) continue;
        const auto range = p.range_of(p[from].worker);
        add_way(from, cover(range.first, range.count, p.packets).size(), b, r);
      }
    }
}

// Sums, also of running statistics, are sent once per tree block; weights return once.
void add_exchange(const job_plan& p, const model_graph& g, dtype t, node_links& links) {
  for (std::uint32_t w = 0; w < p.workers.size(); ++w) {
    if (!p.push_via.empty() && p.push_via[w] != no_role) continue;
    const auto here = p[p.workers[w]].node;
    const auto range = p.range_of(w);
    const auto sums = static_cast<double>(cover(range.first, range.count, p.packets).size());
    for (const auto& b : p.blocks) {
      if (!p.takes(w, b)) continue;
      const auto there = p[p.shard_of(b, p.group_of(w).server_group)].node;
      add(links, here, there, static_cast<double>(encoded_bytes(g.params[b.param].codec, b.count, t)) * sums);
      add(links, there, here, bytes_of(b.count, t));
    }
  }
}

// Every update of a block, with the rule's states, is sent along the chain of its shard's replicas.
void add_copies(const job_plan& p, const model_graph& g, dtype t, node_links& links) {
  for (const auto& b : p.blocks) {
    auto from = b.shard;
    const auto states = g.params[b.param].spec.trainable ? p.rule_states : 0;
    for (auto r : p.copies_of(b.shard)) {
      add(links, p[from].node, p[r].node, bytes_of(b.count, t) * (1.0 + states));
      from = r;
    }
  }
}

void add_edges(const job_plan& p, const model_graph& g, dtype t, node_links& links) {
  for (const auto& e : p.edges) {
    if (!e.in_train) continue;
    const auto type = g.type_of(e.what, t);
    const auto packets = p.placed ? e.packets.count : p.ranges[p[e.to].worker].count;
    const auto bytes =
        static_cast<double>(wire_bytes(e.wire, cut(shape_of(g, e.what), e.region), type)) * static_cast<double>(packets);
    add(links, p[e.from].node, p[e.to].node, bytes);
    if (e.grad_back) add(links, p[e.to].node, p[e.from].node, bytes);
  }
}

double packet_of_examples(const model_graph& g, dtype t) {
  return bytes_of(g.data.count(), g.data_type(t)) + bytes_of(g.label.count(), g.label_type(t));
}

// Examples that a loader gets from another role: the data server, or the parent in the broadcast
// tree.
void add_examples(const job_plan& p, const model_graph& g, const job_spec& job, node_links& links) {
  if (job.data.how == delivery::seeds) return;
  for (std::uint32_t w = 0; w < p.loaders.size(); ++w) {
    const auto from = p.examples_from(job.data.how, w);
    if (from == no_role) continue;
    add(links, p[from].node, p[p.loaders[w]].node, packet_of_examples(g, job.type()) * static_cast<double>(p.ranges[w].count));
  }
}

}  // namespace

plan_costs cost_of(const job_plan& p, const model_graph& g, const job_spec& job) {
  plan_costs c;
  const auto t = job.type();
  for (const auto& n : p.nodes) c.bytes_per_step[n.name] = c.received[n.name] = c.memory[n.name] = 0;
  add_exchange(p, g, job.parameter_type(), c.links);
  add_reduced(p, job.parameter_type(), c.links);
  add_copies(p, g, job.parameter_type(), c.links);
  add_edges(p, g, t, c.links);
  add_examples(p, g, job, c.links);
  for (const auto& [way, bytes] : c.links) {
    c.bytes_per_step[p.nodes[way.first].name] += bytes;
    c.received[p.nodes[way.second].name] += bytes;
  }
  const auto held = memory_of(p, g, job);
  for (std::size_t n = 0; n < p.nodes.size(); ++n) c.memory[p.nodes[n].name] += held.nodes[n].total();
  return c;
}

}  // namespace troupe
