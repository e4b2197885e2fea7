#include "runtime/cost/plan_memory.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "ops/tree/packet_tree.hpp"
#include "runtime/cost/packet_memory.hpp"

namespace troupe {
namespace {

using block_list = std::vector<const param_block*>;

// The blocks of a plan by what their holders need. Otherwise every worker and shard would look at
// every block: with a shard on every node, nodes x nodes.
struct block_index {
  std::map<std::uint32_t, block_list> of_shard;  // by index of the shard in its server group
  std::map<std::uint32_t, block_list> of_taker;  // by worker; blocks that only some workers take
  // Bytes of blocks that all workers take: of all, of those with a codec, and, by server group and
  // node, of whole parameters with a shard there.
  double dealt = 0, coded = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> whole_on;
};

struct plan_view {
  const job_plan& plan;
  const model_graph& graph;
  const job_spec& job;
  block_index blocks = {};
};

double block_bytes(const plan_view& v, const param_block& b) { return bytes_of(b.count, v.job.parameter_type()); }
double bytes_of_examples(const plan_view& v) {
  const auto& g = v.graph;
  return bytes_of(g.data.count(), g.data_type(v.job.type())) + bytes_of(g.label.count(), g.label_type(v.job.type()));
}
bool cut(const plan_view& v, const param_block& b) { return b.count != v.graph.params[b.param].spec.dims.count(); }

void index_blocks(plan_view& v) {
  const auto& p = v.plan;
  auto& all = v.blocks;
  for (const auto& b : p.blocks) {
    const auto index = p[b.shard].index;
    all.of_shard[index].push_back(&b);
    for (auto w : b.takers) all.of_taker[w].push_back(&b);
    if (!b.takers.empty()) continue;
    const auto bytes = block_bytes(v, b);
    all.dealt += bytes;
    if (v.graph.params[b.param].codec) all.coded += bytes;
    for (std::uint32_t g = 0; g < p.server_groups && !cut(v, b); ++g) all.whole_on[{g, p[p.shard_of(b, g)].node}] += bytes;
  }
}

template <class Key>
const block_list& blocks_at(const std::map<Key, block_list>& list, Key key) {
  static const block_list none;
  const auto at = list.find(key);
  return at == list.end() ? none : at->second;
}

void hold_loaded(const plan_view& v, const role_plan& r, role_memory& m) {
  m.activations = bytes_of_examples(v) * (r.tester ? 1 : v.plan.in_flight() + r.slots);
}

void hold_served(const plan_view& v, const role_plan& r, role_memory& m) {
  if (v.job.data.how == delivery::server) m.activations = bytes_of_examples(v) * (1 + r.slots);
}

// Earlier versions of the parameters, with weights = "stash".
void hold_versions(const plan_view& v, const role_plan& r, role_memory& m) {
  if (v.plan.rule != weight_rule::stash || r.tester) return;
  for (const auto& h : hosted_in(v.plan, v.graph, r, v.job.parameter_type())) m.parameters += h.delayed;
}

// Partial sums of the tree over the role's packets, plus one for each sub-solver; and with a codec,
// its residual for each sum that is sent.
void hold_sums(const plan_view& v, const role_plan& r, role_memory& m) {
  const auto& p = v.plan;
  const auto packets = std::max(1u, r.packets.count);
  const auto sums = std::min(packets, static_cast<std::uint32_t>(std::bit_width(packets - 1)) + p.sub_solvers);
  const auto sent = static_cast<double>(cover(r.packets.first, r.packets.count, p.packets).size());
  const auto group = p.group_of(r.worker).server_group;
  if (r.worker < p.ranges.size()) {
    m.gradients += v.blocks.dealt * sums + v.blocks.coded * sent;
    const auto here = v.blocks.whole_on.find({group, r.node});
    m.parameters += v.blocks.dealt - (here == v.blocks.whole_on.end() ? 0 : here->second);  // received, or assembled
  }
  for (const auto* b : blocks_at(v.blocks.of_taker, r.worker)) {
    m.gradients += block_bytes(v, *b) * sums;
    if (v.graph.params[b->param].codec) m.gradients += block_bytes(v, *b) * sent;
    if (p[p.shard_of(*b, group)].node != r.node) m.parameters += block_bytes(v, *b);
  }
}

// New weights are computed in the gradient's memory, unless that is larger than the block or has
// other readers.
void hold_blocks(const plan_view& v, const role_plan& r, role_memory& m) {
  for (const auto* at : blocks_at(v.blocks.of_shard, r.index)) {
    const auto& b = *at;
    const auto bytes = block_bytes(v, b);
    m.parameters += bytes;
    const bool trains = v.graph.params[b.param].spec.trainable;
    m.states += trains ? v.plan.rule_states * bytes : 0;
    if (cut(v, b) && b.takers.empty()) m.gradients += bytes;
    if (v.plan.nodes.size() == 1) continue;
    m.parameters += bytes;  // the previous version, for recovery from node failures
    if (trains && v.job.max_failures.value_or(1) > 0)
      m.states += v.plan.rule_states * bytes;  // and its states, for recovery from node failures
  }
}

// The versions that the shard holds, with the rule's states.
void hold_copies(const plan_view& v, const role_plan& r, role_memory& m) {
  for (const auto* at : blocks_at(v.blocks.of_shard, v.plan[r.original].index)) {
    const auto& b = *at;
    m.parameters += 2 * block_bytes(v, b);
    if (v.graph.params[b.param].spec.trainable) m.states += 2 * v.plan.rule_states * block_bytes(v, b);
  }
}

// Adds the memory of a role of this kind apart from its layers. The switch has no default, so that
// the compiler reports a missing kind.
void add_own(const plan_view& v, const role_plan& r, role_memory& m) {
  switch (r.kind) {
    case role_kind::coordinator: return;
    case role_kind::loader: return hold_loaded(v, r, m);
    case role_kind::stage: return hold_versions(v, r, m);
    case role_kind::worker: return hold_sums(v, r, m);
    case role_kind::shard: return hold_blocks(v, r, m);
    case role_kind::reducer: return hold_sums(v, r, m);
    case role_kind::tester: return;
    case role_kind::data_server: return hold_served(v, r, m);
    case role_kind::replica: return hold_copies(v, r, m);
  }
}

class estimate {
 public:
  explicit estimate(const plan_view& v) : v_(v), p_(v.plan) {}

  plan_memory make() {
    m_.roles.resize(p_.roles.size());
    m_.nodes.resize(p_.nodes.size());
    for (const auto& r : p_.roles) {
      auto& mine = at(r.id);
      add_own(v_, r, mine);
      auto& node = m_.nodes[r.node];
      node.parameters += mine.parameters, node.gradients += mine.gradients, node.states += mine.states;
      node.activations += mine.activations;
    }
    for (std::uint32_t w = 0; w < p_.stages.size(); ++w) add_worker(p_.stages[w]);
    if (p_.tester_stage != no_role) add_worker({p_.tester_stage});
    return std::move(m_);
  }

 private:
  role_memory& at(role_id r) { return m_.roles[index_of(r)]; }

  // One worker's stages on one node. They pass packets to each other.
  void add_worker(const std::vector<role_id>& stages) {
    std::vector<hosted_step> list;
    std::uint32_t in_flight = 1;
    for (auto s : stages) {
      const auto more = hosted_in(p_, v_.graph, p_[s], v_.job.parameter_type());
      list.insert(list.end(), more.begin(), more.end());
      if (!p_[s].tester) in_flight = std::max(in_flight, p_[s].train_slots);
    }
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first->index < b.first->index; });
    const auto packet = follow_packet(list, v_.job.type(), stages.empty() || !p_[stages[0]].tester);
    for (std::size_t i = 0; i < list.size(); ++i) {
      auto& m = at(list[i].stage);
      m.activations += packet.kept[i] * in_flight;
      m.workspace = std::max(m.workspace, packet.working[i]);
    }
    if (stages.empty()) return;
    auto& node = m_.nodes[p_[stages[0]].node];
    node.activations += (packet.peak - packet.workspace) * in_flight;
    node.workspace += packet.workspace * in_flight;
  }

  const plan_view& v_;
  const job_plan& p_;
  plan_memory m_;
};

}  // namespace

plan_memory memory_of(const job_plan& p, const model_graph& g, const job_spec& job) {
  plan_view v{p, g, job};
  index_blocks(v);
  return estimate(v).make();
}

}  // namespace troupe
