// Prices of plans for many nodes: the sums by node, which grow with roles and blocks, equal the
// sums over all pairs of nodes and over all pairs of roles and blocks.
#include "ops/tree/packet_tree.hpp"
#include "runtime/cost/plan_memory.hpp"
#include "runtime/cost/plan_traffic.hpp"
#include "runtime/sim/event_queue.hpp"
#include "tests/sim/mode_checkers.hpp"

namespace troupe::testing {
namespace {

struct scale_case {
  const char* name;
  mode_shape shape;
};

// Jobs with every reducer, and with what else exchanges sums and weights: server groups, codecs,
// several workers a node, small blocks.
std::vector<scale_case> scale_cases() {
  return {{"server", {}},
          {"sharded", {.reducer = "sharded"}},
          {"hierarchical", {.reducer = "hierarchical"}},
          {"hierarchical_tree", {.reducer = "hierarchical", .between = "tree"}},
          {"tree", {.reducer = "tree"}},
          {"tree_of_three", {.reducer = "tree", .arity = 3}},
          {"ring", {.reducer = "ring"}},
          {"compressed", {.compress = "onebit"}},
          {"server_groups", {.mode = "group_sync", .workers = 6, .groups = 3, .server_groups = 3}}};
}

std::shared_ptr<prepared_job> job_for(const scale_case& c, std::uint64_t seed) {
  auto s = c.shape;
  if (s.groups == 1) s.workers = 1 + static_cast<std::uint32_t>(seed * 5 % 11);
  s.packets = s.workers + static_cast<std::uint32_t>(seed * 3 % 7);
  s.worker_nodes = 1 + static_cast<std::uint32_t>(seed * 7 % s.workers);
  if (s.reducer == "server" || s.reducer == "tree") s.shards = 1 + static_cast<std::uint32_t>(seed % 4);
  if (seed % 3 == 0) s.max_block = 64;
  return prepare_mode(s);
}

// Messages with sums and weights, one by one.
node_traffic counted_messages(const job_plan& p) {
  node_traffic all(p.nodes.size());
  const auto exchange = [&](role_id from, role_id to, std::size_t sums) {
    all.add(p[from].node, p[to].node, static_cast<double>(sums));
    all.add(p[to].node, p[from].node, 1);
  };
  for (const auto& b : p.blocks) {
    for (std::uint32_t w = 0; w < p.workers.size(); ++w) {
      if (!p.takes(w, b)) continue;
      const auto range = p.range_of(w);
      exchange(p.workers[w], p.push_to(w, b), cover(range.first, range.count, p.packets).size());
    }
    for (auto r : p.reducers) exchange(r, p.above(r, b), p.sums_up(r));
  }
  return all;
}

TEST(plan_traffic, of_nodes_equals_the_sums_over_links_and_messages) {
  for (const auto& c : scale_cases())
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const auto j = job_for(c, seed);
      const auto bytes = bytes_by_node(j->plan, j->graph, j->spec), messages = messages_by_node(j->plan);
      const auto costs = cost_of(j->plan, j->graph, j->spec);
      const auto counted = counted_messages(j->plan);
      for (std::size_t n = 0; n < j->plan.nodes.size(); ++n) {
        const auto at = std::string(c.name) + ", seed " + std::to_string(seed) + ", node " + j->plan.nodes[n].name;
        ASSERT_EQ(bytes.sent[n], costs.bytes_per_step.at(j->plan.nodes[n].name)) << at;
        ASSERT_EQ(bytes.received[n], costs.received.at(j->plan.nodes[n].name)) << at;
        ASSERT_EQ(messages.sent[n], counted.sent[n]) << at;
        ASSERT_EQ(messages.received[n], counted.received[n]) << at;
      }
    }
}

// Parameters and gradients of a worker sync or reducer, block by block.
role_memory counted_sums(const prepared_job& j, const role_plan& r) {
  const auto& p = j.plan;
  role_memory m;
  const auto packets = std::max(1u, r.packets.count);
  const auto sums = std::min(packets, static_cast<std::uint32_t>(std::bit_width(packets - 1)) + p.sub_solvers);
  const auto sent = cover(r.packets.first, r.packets.count, p.packets).size();
  for (const auto& b : p.blocks) {
    if (!p.takes(r.worker, b)) continue;
    const auto bytes = bytes_of(b.count, j.spec.parameter_type());
    const auto& q = j.graph.params[b.param];
    m.gradients += bytes * (sums + (q.codec ? static_cast<double>(sent) : 0.0));
    const bool away = p[p.shard_of(b, p.group_of(r.worker).server_group)].node != r.node;
    if (away || b.count != q.spec.dims.count()) m.parameters += bytes;
  }
  return m;
}

TEST(plan_memory, of_a_role_equals_the_sum_over_blocks) {
  for (const auto& c : scale_cases())
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const auto j = job_for(c, seed);
      const auto memory = memory_of(j->plan, j->graph, j->spec);
      for (const auto& r : j->plan.roles) {
        const auto at = std::string(c.name) + ", seed " + std::to_string(seed) + ", " + r.name;
        const auto& got = memory.roles[index_of(r.id)];
        if (r.does().adds != role_sums::none) {
          const auto want = counted_sums(*j, r);
          ASSERT_EQ(got.gradients, want.gradients) << at;
          ASSERT_EQ(got.parameters, want.parameters) << at;
        }
        if (!r.does().owns_parameters) continue;
        double own = 0;
        for (const auto& b : j->plan.blocks)
          if (j->plan.shard_of(b, r.group) == r.id) own += bytes_of(b.count, j->spec.parameter_type());
        ASSERT_EQ(got.parameters, own * (j->plan.nodes.size() > 1 ? 2 : 1)) << at;
      }
    }
}

TEST(plan, lists_below_a_reducer_what_sends_to_it) {
  for (const auto& c : scale_cases())
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const auto j = job_for(c, seed);
      const auto& p = j->plan;
      for (auto r : p.reducers) {
        std::vector<role_id> want;
        for (std::uint32_t w = 0; w < p.push_via.size(); ++w)
          if (p.push_via[w] == r) want.push_back(p.workers[w]);
        for (auto other : p.reducers)
          if (p[other].above == r) want.push_back(other);
        ASSERT_EQ(p.below(r), want) << c.name << ", seed " << seed << ", " << p[r].name;
      }
      for (const auto& b : p.blocks)
        for (const auto& g : p.groups) {
          std::vector<role_id> want;
          for (auto w = g.first; w < g.first + g.count; ++w)
            if (p.push_via.empty() || p.push_via[w] == no_role) want.push_back(p.workers[w]);
          for (auto r : p.reducers)
            if (p.above(r, b) == b.shard && p[r].worker >= g.first && p[r].worker < g.first + g.count) want.push_back(r);
          ASSERT_EQ(p.weights_to(b, g), want) << c.name << ", seed " << seed << ", block " << b.id;
        }
    }
}

TEST(event_queue, refuses_more_events_than_it_can_number) {
  sim::event_queue<char> q;
  for (std::size_t n = 0; n < sim::event_queue<char>::most_at_once; ++n) q.take();
  EXPECT_THROW(q.take(), std::length_error);
}

}  // namespace
}  // namespace troupe::testing
