// Cost of a plan: bytes between nodes per training step, and memory. Estimates for users and for
// placement. cost_of() lists every link; bytes_by_node() and messages_by_node() add by node.
#include <algorithm>

#include "ops/tree/packet_tree.hpp"
#include "runtime/cost/plan_memory.hpp"
#include "runtime/cost/plan_traffic.hpp"
#include "runtime/plan/plan.hpp"

namespace troupe {
namespace {

const shape& shape_of(const model_graph& g, tensor_ref r) {
  if (r.layer == from_data) return r.output == 0 ? g.data : g.label;
  return g.layers[static_cast<std::size_t>(r.layer)].out[r.output];
}

// By link: from, to. add() of both kinds of traffic ignores what stays on a node.
struct link_traffic {
  std::map<std::pair<std::uint32_t, std::uint32_t>, double>& links;
  void add(std::uint32_t from, std::uint32_t to, double bytes) {
    if (from != to && bytes > 0) links[{from, to}] += bytes;
  }
};

// Number of sums that a worker sends per block and step.
std::size_t sums_of(const job_plan& p, std::uint32_t worker) {
  const auto range = p.range_of(worker);
  return cover(range.first, range.count, p.packets).size();
}

// Through reducers: each sends its sum to the role above it, and weights return the same way.
void add_reduced(const job_plan& p, dtype t, link_traffic& links) {
  const auto add_way = [&](role_id from, std::size_t sums, const param_block& b, role_id to) {
    const auto here = p[from].node, there = p[to].node;
    links.add(here, there, bytes_of(b.count, t) * static_cast<double>(sums));
    links.add(there, here, bytes_of(b.count, t));
  };
  for (auto r : p.reducers) {
    const auto up = p.sums_up(r);
    for (const auto& b : p.blocks) {
      add_way(r, up, b, p.above(r, b));
      for (auto from : p.below(r))
        if (p[from].does().adds == role_sums::of_packets) add_way(from, sums_of(p, p[from].worker), b, r);
    }
  }
}

// Sums, also of running statistics, are sent once per tree block; weights return once.
void add_exchange(const job_plan& p, const model_graph& g, dtype t, link_traffic& links) {
  for (std::uint32_t w = 0; w < p.workers.size(); ++w) {
    if (!p.push_via.empty() && p.push_via[w] != no_role) continue;
    const auto here = p[p.workers[w]].node;
    const auto sums = static_cast<double>(sums_of(p, w));
    for (const auto& b : p.blocks) {
      if (!p.takes(w, b)) continue;
      const auto there = p[p.shard_of(b, p.group_of(w).server_group)].node;
      links.add(here, there, static_cast<double>(encoded_bytes(g.params[b.param].codec, b.count, t)) * sums);
      links.add(there, here, bytes_of(b.count, t));
    }
  }
}

// Every update of a block, with the rule's states, is sent along the chain of its shard's replicas.
template <class Traffic>
void add_copies(const job_plan& p, const model_graph& g, dtype t, Traffic& to) {
  std::map<role_id, std::vector<role_id>> copies;  // as job_plan::copies_of
  for (auto r : p.replicas) copies[p[r].original].push_back(r);
  if (copies.empty()) return;
  for (const auto& b : p.blocks) {
    auto from = b.shard;
    const auto states = g.params[b.param].spec.trainable ? p.rule_states : 0;
    for (auto r : copies[b.shard]) {
      to.add(p[from].node, p[r].node, bytes_of(b.count, t) * (1.0 + states));
      from = r;
    }
  }
}

template <class Traffic>
void add_edges(const job_plan& p, const model_graph& g, dtype t, Traffic& to) {
  for (const auto& e : p.edges) {
    if (!e.in_train) continue;
    const auto type = g.type_of(e.what, t);
    const auto packets = p.placed ? e.packets.count : p.ranges[p[e.to].worker].count;
    const auto bytes =
        static_cast<double>(wire_bytes(e.wire, cut(shape_of(g, e.what), e.region), type)) * static_cast<double>(packets);
    to.add(p[e.from].node, p[e.to].node, bytes);
    if (e.grad_back) to.add(p[e.to].node, p[e.from].node, bytes);
  }
}

double packet_of_examples(const model_graph& g, dtype t) {
  return bytes_of(g.data.count(), g.data_type(t)) + bytes_of(g.label.count(), g.label_type(t));
}

// Examples that a loader gets from another role: the data server, or the parent in the broadcast
// tree.
template <class Traffic>
void add_examples(const job_plan& p, const model_graph& g, const job_spec& job, Traffic& to) {
  if (job.data.how == delivery::seeds) return;
  for (std::uint32_t w = 0; w < p.loaders.size(); ++w) {
    const auto from = p.examples_from(job.data.how, w);
    if (from == no_role) continue;
    to.add(p[from].node, p[p.loaders[w]].node, packet_of_examples(g, job.type()) * static_cast<double>(p.ranges[w].count));
  }
}

// --- Sums and weights by node, for node_traffic. There are workers x blocks messages of them. The
// loads of all blocks of a shard, and of all senders of a node, are added first, so the cost grows
// with workers + reducers + blocks. All loads are whole numbers, so the order of additions does not
// change their sums.

// What one sum of a block, encoded by a worker or plain from a reducer, and its weights add.
struct block_load {
  double encoded = 0, plain = 0, weights = 0;
  void operator+=(const block_load& o) { encoded += o.encoded, plain += o.plain, weights += o.weights; }
};

// Everything that several senders exchange with the shards of one server group.
class group_exchange {
 public:
  void add_shard(std::uint32_t node, const block_load& l) {
    shards_[node] += l;
    all_ += l;
  }
  // `encoded`: a worker, otherwise a reducer.
  void add_sender(std::uint32_t node, double sums, bool encoded) {
    for (auto* s : {&senders_[node], &every_}) {
      (encoded ? s->encoded : s->plain) += sums;
      s->count += 1;
    }
  }
  void add_to(node_traffic& t) const {
    for (const auto& [node, s] : senders_) {
      const auto here = shards_.find(node);
      const auto own = here == shards_.end() ? block_load{} : here->second;
      t.sent[node] += s.encoded * (all_.encoded - own.encoded) + s.plain * (all_.plain - own.plain);
      t.received[node] += s.count * (all_.weights - own.weights);
    }
    for (const auto& [node, l] : shards_) {
      const auto here = senders_.find(node);
      const auto own = here == senders_.end() ? sender_sums{} : here->second;
      t.received[node] += (every_.encoded - own.encoded) * l.encoded + (every_.plain - own.plain) * l.plain;
      t.sent[node] += (every_.count - own.count) * l.weights;
    }
  }

 private:
  struct sender_sums {
    double encoded = 0, plain = 0, count = 0;  // sums a block, senders
  };
  std::map<std::uint32_t, block_load> shards_;    // by node
  std::map<std::uint32_t, sender_sums> senders_;  // by node
  block_load all_;
  sender_sums every_;
};

// The blocks that all workers take, by the index of their shard, and their sum.
struct dealt_blocks {
  std::map<std::uint32_t, block_load> by_index;
  block_load all;
};

// `below` sends sums of all blocks to `above` and gets the weights back.
void add_hop(const job_plan& p, role_id below, double sums, const block_load& blocks, role_id above, node_traffic& t) {
  t.add(p[below].node, p[above].node, blocks.plain * sums);
  t.add(p[above].node, p[below].node, blocks.weights);
}

// Reducers below others; those that send to the shards are added to `exchange`, of server group 0.
void add_reducers(const job_plan& p, const dealt_blocks& blocks, group_exchange& exchange, node_traffic& t) {
  for (auto r : p.reducers) {
    const auto up = static_cast<double>(p.sums_up(r));
    for (auto from : p.below(r))
      if (p[from].does().adds == role_sums::of_packets)
        add_hop(p, from, static_cast<double>(sums_of(p, p[from].worker)), blocks.all, r, t);
    if (p[r].above == no_role) {
      exchange.add_sender(p[r].node, up, false);
      continue;
    }
    auto rest = blocks.all;
    if (const auto own = blocks.by_index.find(p[r].worker); p.ring && own != blocks.by_index.end()) {
      const auto& l = own->second;
      add_hop(p, r, up, l, p.shards[own->first], t);
      rest += {-l.encoded, -l.plain, -l.weights};
    }
    add_hop(p, r, up, rest, p[r].above, t);
  }
}

// `load`: of a block.
template <class Load>
void add_sums_and_weights(const job_plan& p, Load load, node_traffic& t) {
  dealt_blocks blocks;
  for (const auto& b : p.blocks) {
    const auto l = load(b);
    for (auto w : b.takers) {  // placed layers: one server group, no reducers
      t.add(p[p.workers[w]].node, p[b.shard].node, l.encoded * static_cast<double>(sums_of(p, w)));
      t.add(p[b.shard].node, p[p.workers[w]].node, l.weights);
    }
    if (!b.takers.empty()) continue;
    blocks.by_index[p[b.shard].index] += l;
    blocks.all += l;
  }
  std::vector<group_exchange> groups(p.server_groups);
  for (std::uint32_t g = 0; g < p.server_groups; ++g)
    for (const auto& [index, l] : blocks.by_index) groups[g].add_shard(p[p.shards[g * p.servers_per_group + index]].node, l);
  for (std::uint32_t w = 0; w < p.ranges.size(); ++w)
    if (p.push_via.empty() || p.push_via[w] == no_role)
      groups[p.group_of(w).server_group].add_sender(p[p.workers[w]].node, static_cast<double>(sums_of(p, w)), true);
  add_reducers(p, blocks, groups[0], t);
  for (const auto& g : groups) g.add_to(t);
}

}  // namespace

plan_costs cost_of(const job_plan& p, const model_graph& g, const job_spec& job) {
  plan_costs c;
  const auto t = job.type();
  for (const auto& n : p.nodes) c.bytes_per_step[n.name] = c.received[n.name] = c.memory[n.name] = 0;
  link_traffic links{c.links};
  add_exchange(p, g, job.parameter_type(), links);
  add_reduced(p, job.parameter_type(), links);
  add_copies(p, g, job.parameter_type(), links);
  add_edges(p, g, t, links);
  add_examples(p, g, job, links);
  for (const auto& [way, bytes] : c.links) {
    c.bytes_per_step[p.nodes[way.first].name] += bytes;
    c.received[p.nodes[way.second].name] += bytes;
  }
  const auto held = memory_of(p, g, job);
  for (std::size_t n = 0; n < p.nodes.size(); ++n) c.memory[p.nodes[n].name] += held.nodes[n].total();
  return c;
}

node_traffic bytes_by_node(const job_plan& p, const model_graph& g, const job_spec& job) {
  const auto t = job.parameter_type();
  node_traffic all(p.nodes.size());
  add_sums_and_weights(
      p,
      [&](const param_block& b) {
        const auto bytes = bytes_of(b.count, t);
        return block_load{static_cast<double>(encoded_bytes(g.params[b.param].codec, b.count, t)), bytes, bytes};
      },
      all);
  add_copies(p, g, t, all);
  add_edges(p, g, job.type(), all);
  add_examples(p, g, job, all);
  return all;
}

node_traffic messages_by_node(const job_plan& p) {
  node_traffic all(p.nodes.size());
  add_sums_and_weights(
      p,
      [](const param_block&) {
        return block_load{1, 1, 1};
      },
      all);
  return all;
}

}  // namespace troupe
