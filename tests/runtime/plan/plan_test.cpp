// Placement, ranges, stages and edges of a plan.
#include "runtime/plan/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using namespace graph_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct planned {
  job_spec job;
  model_graph graph;
  job_plan plan;
};

planned plan_of(job_spec j, const std::vector<node_spec>& nodes, const std::set<std::string>& own = {}) {
  planned p{std::move(j), {}, {}};
  auto g = try_graph(p.job);
  if (!g) ADD_FAILURE() << ::testing::PrintToString(texts(g.error()));
  p.graph = *std::move(g);
  auto r = make_plan(p.job, p.graph, nodes, {own, false});
  if (!r) ADD_FAILURE() << ::testing::PrintToString(texts(r.error()));
  p.plan = *std::move(r);
  return p;
}

std::vector<std::string> plan_errors_of(const job_spec& j, const std::vector<node_spec>& nodes) {
  auto r = make_plan(j, try_graph(j).value(), nodes);
  return r ? std::vector<std::string>{} : texts(r.error());
}

// Properties that every plan must have.
void expect_sound(const planned& x) {
  const auto& p = x.plan;
  for (std::size_t i = 0; i < p.roles.size(); ++i) EXPECT_EQ(index_of(p.roles[i].id), i);
  EXPECT_EQ(p.roles[0].kind, role_kind::coordinator);
  for (const auto& r : p.roles) {
    EXPECT_LT(r.node, p.nodes.size());
    for (std::size_t k = 0; k < r.in_edges.size(); ++k) {
      EXPECT_EQ(p.edges[r.in_edges[k]].to, r.id);
      EXPECT_EQ(p.edges[r.in_edges[k]].to_port, k);
    }
    for (std::size_t k = 0; k < r.out_edges.size(); ++k) {
      EXPECT_EQ(p.edges[r.out_edges[k]].from, r.id);
      EXPECT_EQ(p.edges[r.out_edges[k]].from_port, k);
    }
  }
  for (const auto& e : p.edges) {
    EXPECT_LT(index_of(e.from), index_of(e.to)) << "edges go forward, so the stage graph has no cycle";
    EXPECT_EQ(p[e.from].worker, p[e.to].worker);
  }
  for (const auto& stages : p.stages) {  // every layer once
    std::vector<std::uint32_t> seen;
    for (auto s : stages) seen.insert(seen.end(), p[s].layers.begin(), p[s].layers.end());
    ASSERT_EQ(seen.size(), x.graph.layers.size());
    for (std::uint32_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i);
  }
  std::uint32_t next = 0;
  std::set<std::uint32_t> counts;
  for (const auto& r : p.ranges) {
    EXPECT_EQ(r.first, next);
    next += r.count;
    counts.insert(r.count);
  }
  EXPECT_EQ(next, p.packets);
  EXPECT_LE(*counts.rbegin() - *counts.begin(), 1u);
  std::uint32_t block = 0;
  for (std::uint32_t q = 0; q < x.graph.params.size(); ++q) {  // every element once, in order
    std::int64_t at = 0;
    for (; block < p.blocks.size() && p.blocks[block].param == q; ++block) {
      EXPECT_EQ(p.blocks[block].id, block);
      EXPECT_EQ(p.blocks[block].begin, at);
      EXPECT_EQ(p.blocks[block].begin % 16, 0);
      EXPECT_GT(p.blocks[block].count, 0);
      EXPECT_EQ(p[p.blocks[block].shard].kind, role_kind::shard);
      at += p.blocks[block].count;
    }
    EXPECT_EQ(at, x.graph.params[q].spec.dims.count());
  }
  EXPECT_EQ(block, p.blocks.size());
}

TEST(plan, of_one_worker_has_one_stage_per_layer) {
  const auto x = plan_of(small_net(), nodes_named({"local"}));
  expect_sound(x);
  std::vector<std::string> names;
  for (const auto& r : x.plan.roles) names.push_back(r.name);
  EXPECT_THAT(names, ElementsAre("coordinator", "worker0/loader", "worker0/a", "worker0/relu", "worker0/b", "worker0/accuracy",
                                 "worker0/loss", "worker0", "shard0"));
  ASSERT_EQ(x.plan.edges.size(), 7u);
  const auto& accuracy = x.plan.roles[5];
  EXPECT_FALSE(x.plan.edges[accuracy.in_edges[0]].in_train);
  EXPECT_TRUE(x.plan.edges[accuracy.in_edges[0]].in_test);
  EXPECT_FALSE(x.plan.edges[accuracy.in_edges[0]].grad_back);
  const auto& loss = x.plan.roles[6];
  EXPECT_TRUE(x.plan.edges[loss.in_edges[0]].grad_back);
  EXPECT_FALSE(x.plan.edges[loss.in_edges[1]].grad_back);
  EXPECT_EQ(x.plan.edges[loss.in_edges[1]].what, (tensor_ref{from_data, 1}));
  EXPECT_FALSE(x.plan.edges[x.plan.roles[2].in_edges[0]].grad_back) << "data needs no gradient";
}

TEST(plan, deals_workers_and_shards_over_the_nodes_with_their_roles) {
  auto nodes = nodes_named({"n0", "n1", "n2"});
  nodes[0].roles = {"coordinator", "server"};
  nodes[1].roles = {"worker"};
  nodes[2].roles = {"worker", "server", "coordinator"};
  auto j = small_net(24, 12);
  j.topology.worker_groups = 5;
  j.topology.servers_per_group = 3;
  const auto x = plan_of(j, nodes);
  expect_sound(x);
  std::vector<std::uint32_t> workers, shards;
  for (auto w : x.plan.workers) workers.push_back(x.plan[w].node);
  for (auto s : x.plan.shards) shards.push_back(x.plan[s].node);
  EXPECT_THAT(workers, ElementsAre(1, 2, 1, 2, 1));
  EXPECT_THAT(shards, ElementsAre(0, 2, 0));
  EXPECT_EQ(x.plan.roles[0].node, 0u);
  for (const auto& r : x.plan.roles)
    if (r.kind == role_kind::stage || r.kind == role_kind::loader) {
      EXPECT_EQ(r.node, workers[r.worker]);
    }
  std::vector<std::uint32_t> counts;
  for (const auto& r : x.plan.ranges) counts.push_back(r.count);
  EXPECT_THAT(counts, ElementsAre(3, 3, 2, 2, 2));
}

TEST(plan, puts_separate_servers_on_nodes_without_workers) {
  auto j = small_net();
  j.topology.workers_per_group = 2;
  j.topology.servers_per_group = 2;
  j.topology.colocated = false;
  const auto x = plan_of(j, nodes_named({"n0", "n1", "n2"}));
  for (auto s : x.plan.shards) EXPECT_EQ(x.plan[s].node, 2u);
  expect_sound(plan_of(j, nodes_named({"local"})));
}

TEST(plan, cuts_parameters_evenly) {
  for (int shards = 1; shards <= 70; ++shards) {
    auto j = small_net();
    j.topology.servers_per_group = shards;
    const auto x = plan_of(j, nodes_named({"local"}));
    expect_sound(x);
    std::vector<std::int64_t> owned(static_cast<std::size_t>(shards), 0);
    for (const auto& b : x.plan.blocks) owned[x.plan[b.shard].index] += b.count;
    for (auto o : owned) EXPECT_LE(o, x.graph.parameter_count / shards + 1 + 16) << shards;
  }
}

TEST(plan, puts_buffers_of_a_layer_on_the_shard_of_its_first_block) {
  auto j = job_of({spec("a", "dense", {"data"}, 30), spec("n", "normed", {"a"}), spec("b", "dense", {"n"}, 10),
                   spec("loss", "loss", {"b", "label"})});
  for (int shards : {1, 2, 3, 7, 20}) {
    j.topology.servers_per_group = shards;
    const auto x = plan_of(j, nodes_named({"local"}));
    expect_sound(x);
    role_id home = no_role;
    for (const auto& b : x.plan.blocks)
      if (x.graph.params[b.param].full_name == "n.scale" && b.begin == 0) home = b.shard;
    for (const auto& b : x.plan.blocks) {
      const auto& q = x.graph.params[b.param];
      if (q.spec.trainable) continue;
      EXPECT_EQ(b.count, 30);
      EXPECT_EQ(b.shard, home);
    }
  }
}

TEST(plan, with_fuse_has_one_stage_for_a_chain_and_one_edge_per_tensor) {
  auto j = small_net();
  j.pipeline.fuse = "auto";
  const auto x = plan_of(j, nodes_named({"local"}));
  expect_sound(x);
  ASSERT_EQ(x.plan.stages[0].size(), 1u);
  const auto& s = x.plan[x.plan.stages[0][0]];
  EXPECT_EQ(s.name, "worker0/a..loss");
  EXPECT_EQ(s.in_edges.size(), 2u) << "one for data, one for label, which has two readers";
  EXPECT_TRUE(s.out_edges.empty());
}

// A node that the topology does not use may be down; evaluation must not depend on it.
TEST(plan, puts_the_tester_next_to_the_last_worker_or_on_a_tester_node) {
  auto j = small_net();
  j.pipeline.packets = 2;
  j.topology.workers_per_group = 2;
  const auto tester_of = [&](const std::vector<node_spec>& nodes) {
    const auto g = try_graph(j).value();
    const auto p = make_plan(j, g, nodes, {{}, true}).value();
    EXPECT_EQ(p[p.tester].node, p[p.tester_loader].node);
    EXPECT_EQ(p[p.tester].node, p[p.tester_stage].node);
    return p.nodes[p[p.tester].node].name;
  };
  auto nodes = nodes_named({"n1", "n2", "n3"});
  EXPECT_EQ(tester_of(nodes), "n2");
  nodes[2].roles = {"tester"};
  EXPECT_EQ(tester_of(nodes), "n3");
}

TEST(plan, never_fuses_own_stage_types) {
  auto j = small_net();
  j.pipeline.fuse = "auto";
  const auto x = plan_of(j, nodes_named({"local"}), {"same"});
  expect_sound(x);
  std::vector<std::string> names;
  for (auto s : x.plan.stages[0]) names.push_back(x.plan[s].name);
  EXPECT_THAT(names, ElementsAre("worker0/a", "worker0/relu", "worker0/b..loss"));
}

// Three gradients meet at a: (r + s) + t, with any fusing; s and t in one stage would make it r +
// (s + t).
TEST(plan, with_fuse_keeps_the_order_in_which_gradients_are_added) {
  auto j =
      job_of({spec("a", "dense", {"data"}, 10), spec("r", "same", {"a"}), spec("apart", "halves", {"a"}), spec("s", "same", {"a"}),
              spec("t", "same", {"a"}), spec("join", "sum", {"r", "s", "t"}), spec("seen0", "metric", {"apart", "label"}),
              spec("seen1", "metric", {"apart.1", "label"}), spec("loss", "loss", {"join", "label"})});
  j.pipeline.fuse = "auto";
  const auto g = try_graph(j, shape{4, 5}, 2).value();
  const auto p = make_plan(j, g, nodes_named({"local"}), {{"halves"}, false}).value();
  std::vector<std::string> names;
  for (auto s : p.stages[0]) names.push_back(p[s].name);
  EXPECT_THAT(names, ElementsAre("worker0/a..r", "worker0/apart", "worker0/s", "worker0/t..loss"));
}

TEST(plan, puts_the_data_server_on_a_data_node_and_counts_its_bytes) {
  auto nodes = nodes_named({"n0", "n1", "n2"});
  nodes[0].roles = {"coordinator", "worker", "server"};
  nodes[1].roles = {"worker"};
  nodes[2].roles = {"data"};
  auto j = small_net();
  j.topology.workers_per_group = 2;
  const auto without = plan_of(j, nodes);
  EXPECT_EQ(without.plan.data_server, no_role);
  j.data.how = delivery::server;
  const auto x = plan_of(j, nodes);
  expect_sound(x);
  ASSERT_EQ(x.plan.data_server, x.plan.roles.back().id);
  EXPECT_EQ(x.plan.roles.back().kind, role_kind::data_server);
  EXPECT_EQ(x.plan.roles.back().node, 2u);
  const auto packet = static_cast<double>(x.graph.data.count() * 4 + x.graph.label.count() * 4);
  EXPECT_EQ(cost_of(x.plan, x.graph, x.job).bytes_per_step.at("n2"), 4 * packet) << "four packets, all to other nodes";
  EXPECT_EQ(cost_of(without.plan, without.graph, without.job).bytes_per_step.at("n2"), 0);
  j.data.how = delivery::seeds;
  EXPECT_EQ(plan_of(j, nodes).plan.roles.back().kind, role_kind::data_server);
  j.data.how = delivery::broadcast;
  const auto tree = plan_of(j, nodes);
  EXPECT_EQ(tree.plan.data_server, no_role);
  EXPECT_EQ(cost_of(tree.plan, tree.graph, tree.job).bytes_per_step.at("n0") -
                cost_of(without.plan, without.graph, without.job).bytes_per_step.at("n0"),
            2 * packet)
      << "worker 0 to worker 1";
  nodes[2].roles = {"worker"};
  EXPECT_TRUE(plan_errors_of(j, nodes).empty());
  j.data.how = delivery::server;
  EXPECT_THAT(plan_errors_of(j, nodes), ElementsAre(HasSubstr("no node has the role \"data\"")));
}

TEST(plan, reports_mistakes_with_their_position) {
  auto j = small_net();
  j.topology.workers_per_group = 5;
  EXPECT_THAT(plan_errors_of(j, nodes_named({"local"})),
              ElementsAre(HasSubstr("job.toml:3:11: fewer packets than workers: 4 for 5")));
  j = small_net();
  EXPECT_EQ(plan_errors_of(j, {}).size(), 3u);
  auto nodes = nodes_named({"n0"});
  nodes[0].at = {"c.toml", 7, 1};
  nodes[0].roles = {"coordinator", "worker"};
  EXPECT_THAT(plan_errors_of(j, nodes), ElementsAre("c.toml:7:1: no node has the role \"server\""));
  nodes[0].roles.push_back("server");
  nodes[0].memory_limit = 1000;
  EXPECT_THAT(plan_errors_of(j, nodes), ElementsAre(HasSubstr("c.toml:7:1: over budget: node 'n0'")));
  j.topology.workers_per_group = 0;
  j.topology.at = {"job.toml", 5, 1};
  EXPECT_THAT(plan_errors_of(j, nodes_named({"n"})),
              ElementsAre("job.toml:5:1: workers_per_group must be between 1 and 65535, not 0"));
}

// A few lines of a file request millions of roles: the plan is refused before any role is made.
TEST(plan, beyond_a_size_limit_is_refused_with_that_limit) {
  std::vector<layer_spec> layers{spec("a", "dense", {"data"}, 30)};
  for (int k = 1; k < 99; ++k) layers.push_back(spec("l" + std::to_string(k), "same", {layers.back().name}));
  layers.push_back(spec("loss", "loss", {layers.back().name, "label"}));
  auto j = job_of(layers, 65535, 65535);
  j.topology.key_at["workers_per_group"] = {"job.toml", 6, 1};
  j.topology.key_at["max_block"] = {"job.toml", 7, 1};
  j.topology.workers_per_group = 65535;
  EXPECT_THAT(
      plan_errors_of(j, nodes_named({"local"})),
      ElementsAre("job.toml:6:1: the plan would have more than 2,097,152 parts of layers (workers x layers) (the maximum) for "
                  "65,535 workers, 100 layers, 1 shards of a server group"));
  j = small_net(65535, 65535);
  j.topology.key_at["workers_per_group"] = {"job.toml", 6, 1};
  j.topology.workers_per_group = 65535;
  j.layers[0].place = {"local"};
  EXPECT_THAT(plan_errors_of(j, nodes_named({"local"})),
              ElementsAre("job.toml:6:1: layers that are placed or split by feature support at most 4,096 workers, not 65,535"));
  j = small_net();
  j.topology.key_at["max_block"] = {"job.toml", 7, 1};
  j.topology.max_block = 1;
  j.layers[0].values.values["outputs"] = std::int64_t{1000000};
  EXPECT_THAT(plan_errors_of(j, nodes_named({"local"})),
              ElementsAre(HasSubstr("job.toml:7:1: the plan would have more than 1,048,576 blocks of parameters (the maximum)")));
}

// With many workers, every stage has edges of its own worker only.
TEST(plan, of_many_workers_has_no_edges_between_workers) {
  auto j = small_net(1000, 1000);
  j.topology.workers_per_group = 1000;
  const auto x = plan_of(j, nodes_named({"local"}));
  expect_sound(x);
  const auto one = plan_of(small_net(4, 4), nodes_named({"local"}));
  EXPECT_EQ(x.plan.edges.size(), 1000 * one.plan.edges.size());
}

}  // namespace
}  // namespace troupe
