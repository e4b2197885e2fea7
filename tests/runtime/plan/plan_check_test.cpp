// check_plan names each layer, input and parameter that is covered incompletely or twice: valid
// plans, broken in many ways.
#include "runtime/plan/plan_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using namespace graph_test;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

layer_spec stock_layer(const std::string& name, const std::string& type, const std::string& from, std::int64_t outputs = 0) {
  layer_registry all;
  add_stock_layers(all);
  auto s = spec(name, type, {from});
  options given;
  if (outputs > 0) given.values["outputs"] = outputs;
  s.values = check_options(given, all.find(type)->specs);
  return s;
}

layer_spec laid(layer_spec s, const std::string& partition, std::vector<std::string> place, std::vector<double> fraction = {}) {
  s.partition = partition;
  s.place = std::move(place);
  s.fraction = std::move(fraction);
  s.key_at["partition"] = {};
  return s;
}

struct planned_job {
  job_spec job;
  model_graph graph;
  job_plan plan;

  explicit planned_job(job_spec j) : job(std::move(j)) {
    layer_registry all;
    add_stock_layers(all);
    auto g = build_graph(job, all, {shape{5}, 4});
    if (!g) ADD_FAILURE() << ::testing::PrintToString(texts(g.error()));
    graph = *std::move(g);
    auto r = make_plan(job, graph, nodes_named({"n1", "n2"}), {{}, true});
    if (!r) ADD_FAILURE() << ::testing::PrintToString(texts(r.error()));
    plan = *std::move(r);
  }
  planned_job(const planned_job&) = delete;

  role_plan& role(const std::string& name) {
    for (auto& r : plan.roles)
      if (r.name == name) return r;
    ADD_FAILURE() << "no role " << name;
    return plan.roles[0];
  }
  std::uint32_t edge(const std::string& from, const std::string& to) {
    for (std::uint32_t i = 0; i < plan.edges.size(); ++i)
      if (plan[plan.edges[i].from].name == from && plan[plan.edges[i].to].name == to) return i;
    ADD_FAILURE() << "no edge " << from << " > " << to;
    return 0;
  }
  param_block& block(const std::string& param) {
    for (auto& b : plan.blocks)
      if (graph.params[b.param].full_name == param) return b;
    ADD_FAILURE() << "no block of " << param;
    return plan.blocks[0];
  }
  std::vector<std::string> faults() const {
    std::vector<std::string> list;
    for (const auto& f : check_plan(plan, graph)) list.push_back(f.text);
    return list;
  }
};

// a: 12 features, 9 on n1 and 3 on n2; b on the same nodes; c: packets 0 to 2 on n2, 3 on n1; score
// and loss on n1.
job_spec apart() {
  return job_of({laid(stock_layer("a", "linear", "data", 12), "feature", {"n1", "n2"}, {0.75, 0.25}), stock_layer("b", "relu", "a"),
                 laid(stock_layer("c", "linear", "b", 8), "batch", {"n2", "n1"}, {0.75, 0.25}),
                 laid(stock_layer("score", "linear", "c", 4), "none", {"n1"}),
                 laid(spec("loss", "softmax_loss", {"score", "label"}), "none", {"n1"})});
}

job_spec colocated() {
  auto j = job_of({stock_layer("a", "linear", "data", 12), stock_layer("b", "relu", "a"), stock_layer("score", "linear", "b", 4),
                   spec("loss", "softmax_loss", {"score", "label"})});
  j.topology.workers_per_group = 2;
  j.topology.servers_per_group = 3;
  return j;
}

TEST(plan_check, valid_plans_have_no_faults) {
  EXPECT_THAT(planned_job(apart()).faults(), IsEmpty());
  EXPECT_THAT(planned_job(colocated()).faults(), IsEmpty());
  auto fused = apart();
  fused.pipeline.fuse = "auto";
  EXPECT_THAT(planned_job(fused).faults(), IsEmpty());
  auto groups = colocated();
  groups.topology.worker_groups = groups.topology.server_groups = 2;
  EXPECT_THAT(planned_job(groups).faults(), IsEmpty());
}

TEST(plan_check, part_without_a_stage_is_named) {
  planned_job p(apart());
  auto& r = p.role("host1/a.1");
  r.layers.clear(), r.parts.clear(), r.in_edges.clear(), r.out_edges.clear();
  EXPECT_THAT(
      p.faults(),
      Contains(
          "layer 'a': packets 0 to 3, features 9 to 11: no part computes them (host0/a.0 has packets 0 to 3, features 0 to 8)"));
  planned_job q(colocated());
  auto& s = q.role("worker1/b");
  s.layers.clear(), s.parts.clear();
  EXPECT_THAT(q.faults(),
              Contains("layer 'b': packets 2 to 3, features 0 to 11: no part computes them (worker0/b has packets 0 to 1)"));
}

TEST(plan_check, missing_or_duplicated_role_is_named) {
  planned_job p(apart());
  p.plan.roles.erase(p.plan.roles.begin() + index_of(p.role("host0/b.0").id));
  EXPECT_THAT(p.faults(), Contains(HasSubstr("a role is missing or duplicated")));
  planned_job q(apart());
  auto again = q.role("host1/a.1");
  again.name = "host9/a.1";
  again.id = role_id{static_cast<std::uint32_t>(q.plan.roles.size())};
  q.plan.roles.push_back(again);
  EXPECT_THAT(q.faults(), Contains("layer 'a': packets 0 to 3, features 9 to 11: both host1/a.1 and host9/a.1 compute them"));
}

TEST(plan_check, shifted_packet_range_is_named_as_a_gap_or_an_overlap) {
  planned_job p(apart());
  p.role("host2/c.0").packets.count = 2;
  EXPECT_THAT(p.faults(), Contains("layer 'c': packet 2, features 0 to 7: no part computes them "
                                   "(host2/c.0 has packets 0 to 1; host3/c.1 has packet 3)"));
  planned_job q(apart());
  q.role("host3/c.1").packets = {2, 2};
  EXPECT_THAT(q.faults(), Contains("layer 'c': packet 2, features 0 to 7: both host2/c.0 and host3/c.1 compute them"));
  planned_job r(apart());
  r.role("host3/c.1").packets = {3, 2};
  EXPECT_THAT(r.faults(), Contains(HasSubstr("layer 'c': host3/c.1 computes packets 3 to 4")));
}

TEST(plan_check, shifted_features_are_named_as_a_gap_or_an_overlap) {
  const auto shifted = [](feature_range r) {
    planned_job p(apart());
    auto& part = p.role("host1/a.1").parts[0];
    auto other = std::make_shared<part_layer>(*part);
    other->features = r;
    part = other;
    return p.faults();
  };
  EXPECT_THAT(shifted({10, 12}), Contains(HasSubstr("layer 'a': packets 0 to 3, feature 9: no part computes them")));
  EXPECT_THAT(shifted({8, 12}), Contains("layer 'a': packets 0 to 3, feature 8: both host0/a.0 and host1/a.1 compute them"));
  EXPECT_THAT(shifted({9, 13}), Contains(HasSubstr("layer 'a': host1/a.1 computes packets 0 to 3, features 9 to 12")));
}

TEST(plan_check, missing_edge_is_named_with_its_reader) {
  planned_job p(apart());
  auto& e = p.plan.edges[p.edge("host0/b.0", "host2/c.0")];
  e.in_train = e.in_test = false;
  const auto starves =
      ElementsAre("layer 'c': host2/c.0 lacks packets 0 to 2, features 0 to 8 of its input 'b': no role sends them");
  EXPECT_THAT(p.faults(), starves);
  e.in_train = true;
  EXPECT_THAT(p.faults(), starves) << "missing in evaluation only";
  planned_job q(apart());
  const auto gone = q.edge("host0/b.0", "host2/c.0");
  std::erase(q.role("host2/c.0").in_edges, gone);
  EXPECT_THAT(q.faults(), Contains("layer 'b': the edge from host0/b.0 to host2/c.0 is not listed at host2/c.0"));
  EXPECT_THAT(q.faults(), Contains(HasSubstr("layer 'c': host2/c.0 lacks packets 0 to 2, features 0 to 8 of its input 'b'")));
}

TEST(plan_check, duplicated_or_oversized_edge_is_named) {
  planned_job p(apart());
  auto e = p.plan.edges[p.edge("host1/b.1", "host3/c.1")];
  auto& from = p.role("host1/b.1");
  auto& to = p.role("host3/c.1");
  e.from_port = static_cast<std::uint16_t>(from.out_edges.size()), e.to_port = static_cast<std::uint16_t>(to.in_edges.size());
  from.out_edges.push_back(static_cast<std::uint32_t>(p.plan.edges.size()));
  to.in_edges.push_back(static_cast<std::uint32_t>(p.plan.edges.size()));
  p.plan.edges.push_back(e);
  EXPECT_THAT(
      p.faults(),
      Contains(
          "layer 'c': host3/c.1 receives packet 3, features 9 to 11 of its input 'b': both host1/b.1 and host1/b.1 send them"));

  planned_job q(apart());
  q.plan.edges[q.edge("host1/b.1", "host3/c.1")].region = {8, 12};
  EXPECT_THAT(q.faults(), Contains("layer 'c': host3/c.1 expects 'b' from host1/b.1, which does not compute these features"));
  EXPECT_THAT(q.faults(),
              Contains(HasSubstr("receives packet 3, feature 8 of its input 'b': both host0/b.0 and host1/b.1 send them")));
}

TEST(plan_check, edge_with_wrong_packets_or_from_a_wrong_role_is_named) {
  planned_job p(apart());
  p.plan.edges[p.edge("host2/c.0", "host0/score")].packets = {0, 2};
  EXPECT_THAT(p.faults(),
              Contains("layer 'score': host0/score lacks packet 2, features 0 to 7 of its input 'c': no role sends them"));
  planned_job q(apart());
  q.plan.edges[q.edge("host2/c.0", "host0/score")].packets = {0, 4};
  EXPECT_THAT(q.faults(), Contains("layer 'score': host0/score expects 'c' from host2/c.0, which does not compute these packets"));
  planned_job r(colocated());
  r.plan.edges[r.edge("worker0/loader", "worker0/a")].what.output = 1;
  EXPECT_THAT(r.faults(), Contains(HasSubstr("layer 'a': worker0/a lacks packets 0 to 1")));
  planned_job s(apart());
  s.plan.edges[s.edge("host0/a.0", "host0/b.0")].need = {0, 8};
  EXPECT_THAT(s.faults(), Contains(HasSubstr("sends host0/b.0 a tensor that it does not read")));
}

TEST(plan_check, loss_without_an_edge_from_its_loader_is_named) {
  planned_job p(colocated());
  auto& e = p.plan.edges[p.edge("worker0/loader", "worker0/loss")];
  e.in_test = false;
  EXPECT_THAT(p.faults(), Contains(HasSubstr("layer 'loss': worker0/loss reports, but no loader sends to it")));
}

TEST(plan_check, loss_of_training_without_an_edge_from_its_loader_is_named) {
  auto job = colocated();
  job.layers.back().phase = "train";
  planned_job p(job);
  EXPECT_THAT(p.faults(), IsEmpty());
  p.plan.edges[p.edge("worker0/loader", "worker0/loss")].in_train = false;
  EXPECT_THAT(p.faults(), Contains(HasSubstr("layer 'loss': worker0/loss reports, but no loader sends to it")));
}

TEST(plan_check, gradient_without_a_route_back_is_named) {
  planned_job p(apart());
  p.plan.edges[p.edge("host2/c.0", "host0/score")].grad_back = false;
  EXPECT_THAT(p.faults(), ElementsAre("layer 'score': no gradient of 'c' is sent back from host0/score to host2/c.0"));
}

TEST(plan_check, parameter_elements_with_no_or_two_owners_are_named) {
  planned_job p(colocated());
  auto again = p.block("a.bias");
  again.id = static_cast<std::uint32_t>(p.plan.blocks.size());
  again.shard = p.plan.shards[2];
  p.plan.blocks.push_back(again);
  EXPECT_THAT(p.faults(), Contains(AllOf(HasSubstr("layer 'a': parameter 'a.bias', elements 0 to 11: both shard"),
                                         HasSubstr(" and shard2 (block " + std::to_string(again.id) + ") own them"))));
  planned_job q(colocated());
  const auto half = q.block("score.weight").count;
  ++q.block("score.weight").begin, --q.block("score.weight").count;
  EXPECT_THAT(q.faults(), Contains("layer 'score': parameter 'score.weight', element 0: no shard owns them")) << half;
  planned_job r(apart());
  r.block("a.weight").count += 5;
  EXPECT_THAT(r.faults(), Contains(HasSubstr("layer 'a': parameter 'a.weight', elements 45 to 49: both shard")));
  planned_job s(apart());
  s.block("a.weight").shard = s.plan.workers[0];
  EXPECT_THAT(s.faults(), Contains(HasSubstr("refers to a parameter, shard or taker that does not exist")));
  planned_job t(apart());
  t.plan.blocks.pop_back();
  EXPECT_THAT(t.faults(), Contains(HasSubstr("no shard owns them")));
}

TEST(plan_check, block_with_a_missing_or_needless_taker_is_named) {
  planned_job p(apart());
  p.block("c.weight").takers.pop_back();
  EXPECT_THAT(p.faults(), ElementsAre(HasSubstr("layer 'c': host3 uses block")));
  planned_job q(apart());
  q.block("score.weight").takers.push_back(0);
  EXPECT_THAT(q.faults(),
              ElementsAre(AllOf(HasSubstr("layer 'score': worker0 receives block"), HasSubstr("but has no part of the layer"))));
  planned_job r(apart());
  r.block("a.weight").takers = {2};
  EXPECT_THAT(r.faults(), ElementsAre(HasSubstr("layer 'a': host0 uses block")));
}

// d: rows of the weight on two nodes, whose outputs are added.
job_spec added() {
  return job_of({stock_layer("a", "linear", "data", 12),
                 laid(stock_layer("d", "linear", "a", 6), "input", {"n1", "n2"}, {0.75, 0.25}),
                 laid(stock_layer("score", "linear", "d", 4), "batch", {"n1", "n2"}),
                 laid(spec("loss", "softmax_loss", {"score", "label"}), "none", {"n1"})});
}

TEST(plan_check, missing_or_wrong_addend_is_named) {
  planned_job p(added());
  ASSERT_THAT(p.faults(), IsEmpty());
  auto& e = p.plan.edges[p.edge("host1/d.1", "host2/score.0")];
  e.in_train = false;
  EXPECT_THAT(p.faults(),
              ElementsAre("layer 'score': host2/score.0 lacks packets 0 to 1, features 0 to 5 of its input 'd': no role sends them "
                          "(the addend of host1/d.1)"));
  e.in_train = true, e.addend = false;
  EXPECT_THAT(p.faults(), Contains("layer 'score': host2/score.0 does not add 'd' from host1/d.1"));
  planned_job q(added());
  q.plan.edges[q.edge("worker0/a", "host1/d.1")].addend = true;
  EXPECT_THAT(q.faults(), Contains("layer 'd': host1/d.1 adds 'a' from worker0/a"));
  planned_job r(added());
  auto& part = r.role("host1/d.1").parts[0];
  auto other = std::make_shared<part_layer>(*part);
  other->inputs = {10, 12};
  part = other;
  EXPECT_THAT(r.faults(),
              Contains("layer 'd': packets 0 to 3, feature 9: no part computes them (host0/d.0 has packets 0 to 3, features 0 to 8 "
                       "of its input; host1/d.1 has packets 0 to 3, features 10 to 11 of its input)"));
}

TEST(plan_check, parameter_columns_with_no_or_two_owners_are_named) {
  planned_job p(added());
  ++p.block("d.weight").begin;
  EXPECT_THAT(p.faults(), Contains("layer 'd': parameter 'd.weight', element 0 of each row: no shard owns them"));
  planned_job q(added());
  q.block("d.weight").run = 10;
  EXPECT_THAT(q.faults(), Contains(HasSubstr("is neither a contiguous range of elements nor a range of columns")));
  planned_job r(added());
  r.block("d.weight").run = 10, r.block("d.weight").count = 60;
  EXPECT_THAT(r.faults(), Contains(AllOf(HasSubstr("layer 'd': parameter 'd.weight', element 9 of each row: both shard"),
                                         HasSubstr("own them"))));
  planned_job s(added());
  s.block("d.bias").takers = {2};
  EXPECT_THAT(s.faults(), Contains(HasSubstr("layer 'd': host0 uses block")));
  planned_job t(added());
  t.block("d.bias").takers.push_back(2);
  EXPECT_THAT(t.faults(), Contains(AllOf(HasSubstr("layer 'd': host1 receives block"), HasSubstr("but does not use it"))));
}

TEST(plan_check, packet_without_a_loader_and_stage_without_a_worker_are_named) {
  planned_job p(colocated());
  p.plan.ranges[1] = {3, 1};
  EXPECT_THAT(p.faults(), Contains("packet 2 of a step: no loader loads them"));
  planned_job q(colocated());
  q.plan.ranges[1] = {1, 3};
  EXPECT_THAT(q.faults(), Contains("packet 1 of a step: both worker0/loader and worker1/loader load them"));
  planned_job r(apart());
  r.plan.stages[1].clear();
  EXPECT_THAT(r.faults(), Contains(HasSubstr("is a stage of no worker")));
  planned_job s(colocated());
  auto& model = s.role("tester/model");
  model.layers.pop_back(), model.parts.pop_back();
  EXPECT_THAT(s.faults(), Contains("layer 'loss': tester/model does not host it exactly once"));
}

// No number in a plan is trusted: the check terminates and reports a fault for any value.
TEST(plan_check, invalid_numbers_are_found_before_they_are_used) {
  const std::vector<std::function<void(planned_job&)>> breaks{[](auto& p) { p.plan.edges[0].to = role_id{999}; },
                                                              [](auto& p) { p.plan.edges[0].from = p.plan.workers[0]; },
                                                              [](auto& p) { p.plan.edges[0].what.layer = 99; },
                                                              [](auto& p) { p.plan.blocks[0].param = 99; },
                                                              [](auto& p) { p.plan.blocks[0].takers = {99}; },
                                                              [](auto& p) { p.plan.blocks[0].id = 7; },
                                                              [](auto& p) { p.plan.loaders.pop_back(); },
                                                              [](auto& p) { p.plan.workers.push_back(role_id{77}); },
                                                              [](auto& p) { p.plan.stages.pop_back(); },
                                                              [](auto& p) { p.role("host0/a.0").parts.clear(); },
                                                              [](auto& p) { p.role("host0/a.0").in_edges = {12345}; },
                                                              [](auto& p) { p.role("host0/a.0").node = 5; },
                                                              [](auto& p) { p.role("host0/a.0").worker = 50; },
                                                              [](auto& p) { p.plan.shards = {p.plan.loaders[0]}; },
                                                              [](auto& p) { p.role("host0/a.0").layers.push_back(88); }};
  for (std::size_t i = 0; i < breaks.size(); ++i) {
    planned_job p(apart());
    breaks[i](p);
    EXPECT_FALSE(p.faults().empty()) << i;
  }
}

// Every loss and metric is a consumer of the loader, with credit for in_flight() packets.
TEST(plan_slots, a_placed_stage_has_room_for_the_phase_with_more_losses_and_metrics) {
  const auto slots = [](const std::string& phase) {
    auto job = job_of({laid(stock_layer("score", "linear", "data", 4), "none", {"n1"}),
                       laid(spec("loss", "softmax_loss", {"score", "label"}), "none", {"n1"}),
                       laid(spec("second", "softmax_loss", {"score", "label"}), "none", {"n2"})});
    job.layers.back().phase = phase;
    planned_job p(job);
    return static_cast<double>(p.role("host0/score").slots) / p.plan.in_flight();
  };
  EXPECT_EQ(slots(""), 2);
  EXPECT_EQ(slots("train"), 2);
  EXPECT_EQ(slots("test"), 2);
}

}  // namespace
}  // namespace troupe
