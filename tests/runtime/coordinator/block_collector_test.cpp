// Blocks are joined to parameters, and parameters are cut into blocks, for every kind of cut.
// Blocks that were not requested or do not fit are dropped.
#include "runtime/coordinator/block_collector.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ops/device.hpp"
#include "runtime/coordinator/block_cutter.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class blocks : public ::testing::Test {
 protected:
  // wide: 2 x 4, cut by columns; long: 4, cut in two; whole: 3. Two packets; carries() adds one
  // stage with carried state for each.
  blocks() {
    const auto param = [&](std::string name, shape s) {
      graph_param p;
      p.full_name = std::move(name);
      p.spec.dims = s;
      graph->params.push_back(std::move(p));
    };
    param("wide", {2, 4});
    param("long", {4});
    param("whole", {3});
    const auto role = [&](role_kind k, std::uint32_t group) {
      role_plan r;
      r.id = role_id{static_cast<std::uint32_t>(plan->roles.size())};
      r.kind = k;
      r.group = group;
      plan->roles.push_back(r);
      return r.id;
    };
    role(role_kind::coordinator, 0);
    one = role(role_kind::shard, 0);
    two = role(role_kind::shard, 0);
    copy = role(role_kind::shard, 1);
    plan->shards = {one, two, copy};
    const auto block = [&](std::uint32_t of_param, std::int64_t begin, std::int64_t count, role_id shard, std::int64_t run = 0) {
      param_block b;
      b.id = static_cast<std::uint32_t>(plan->blocks.size());
      b.param = of_param;
      b.begin = begin;
      b.count = count;
      b.shard = shard;
      b.run = run;
      b.stride = run > 0 ? 4 : 0;
      plan->blocks.push_back(b);
    };
    block(0, 0, 2, one, 1);
    block(0, 1, 6, two, 3);
    block(1, 0, 3, one);
    block(1, 3, 1, two);
    block(2, 0, 3, two);
    plan->packets = 2;
  }
  void carries() {
    graph_layer l;
    l.name = "lstm";
    l.carries = {{"h", {1, 2}}, {"c", {1, 1}}};
    graph->layers.push_back(l);
    for (std::uint32_t w = 0; w < 2; ++w) {
      role_plan r;
      r.id = role_id{static_cast<std::uint32_t>(plan->roles.size())};
      r.kind = role_kind::stage;
      r.layers = {0};
      r.packets = {w, 1};
      plan->roles.push_back(r);
    }
  }
  block_collector collector() { return {graph, plan, {"momentum"}, dtype::f32}; }

  tensor of(std::vector<float> values, shape s = {}) {
    auto t = tensor::allocate(*dev, s.rank() > 0 ? s : shape{static_cast<std::int64_t>(values.size())}, dtype::f32);
    std::copy(values.begin(), values.end(), t.mutable_data<float>());
    return t;
  }
  static std::vector<float> values(const tensor& t) { return {t.data<float>(), t.data<float>() + t.count()}; }
  void run(const task_work& work) {
    task_context c{*dev};
    work(c);
  }
  // Parameter values count from 0, 10 and 20; momentum is the value + 100.
  bool give(block_collector& c, std::uint32_t block, std::vector<float> v, std::uint64_t updates = 7) {
    auto more = v;
    for (auto& x : more) x += 100;
    return c.take({c.request(), block, of(v), {of(more)}, updates});
  }
  bool give_all(block_collector& c) {
    EXPECT_FALSE(give(c, 3, {13}, 9));
    EXPECT_FALSE(give(c, 0, {0, 4}));
    EXPECT_FALSE(give(c, 2, {10, 11, 12}));
    EXPECT_FALSE(give(c, 4, {20, 21, 22}));
    return give(c, 1, {1, 2, 3, 5, 6, 7}, 8);
  }

  std::shared_ptr<device> dev = make_cpu_device();
  std::shared_ptr<model_graph> graph = std::make_shared<model_graph>();
  std::shared_ptr<job_plan> plan = std::make_shared<job_plan>();
  role_id one{}, two{}, copy{};
};

TEST_F(blocks, are_joined_to_parameters_and_rule_states_in_graph_order) {
  auto c = collector();
  c.begin(true);
  ASSERT_TRUE(give_all(c));
  run(c.join());
  const auto got = c.joined();
  EXPECT_FALSE(c.under_way());
  ASSERT_EQ(got.weights.size(), 3u);
  ASSERT_EQ(got.rule.size(), 3u);
  EXPECT_THAT(got.carried, IsEmpty());
  EXPECT_EQ(got.weights[0].first, "wide");
  EXPECT_EQ(got.weights[0].second.dims(), (shape{2, 4}));
  EXPECT_THAT(values(got.weights[0].second), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(values(got.weights[1].second), ElementsAre(10, 11, 12, 13));
  EXPECT_THAT(values(got.weights[2].second), ElementsAre(20, 21, 22));
  EXPECT_EQ(got.rule[1].first, "long@momentum");
  EXPECT_THAT(values(got.rule[0].second), ElementsAre(100, 101, 102, 103, 104, 105, 106, 107));
  EXPECT_THAT(values(got.rule[1].second), ElementsAre(110, 111, 112, 113));
  std::vector<std::string> names;
  for (const auto& [name, value] : got.all()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("wide", "long", "whole", "wide@momentum", "long@momentum", "whole@momentum"));
}

TEST_F(blocks, with_values_that_are_not_finite_are_reported_by_name) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    auto c = collector();
    c.begin(false);
    for (std::uint32_t k : {0u, 1u, 2u, 3u})
      give(c, k, k == 1 ? std::vector<float>(6) : std::vector<float>(k == 0 ? 2 : k == 2 ? 3 : 1));
    ASSERT_TRUE(c.take({c.request(), 4, of({0, bad, 0}), {of({0, 0, 0})}, 1}));
    run(c.join());
    EXPECT_EQ(c.joined().not_finite, "whole");
    c.begin(false);
    for (std::uint32_t k : {0u, 1u, 2u, 4u}) give(c, k, k == 1 ? std::vector<float>(6) : std::vector<float>(k == 0 ? 2 : 3));
    ASSERT_TRUE(c.take({c.request(), 3, of({1}), {of({bad})}, 1}));
    run(c.join());
    EXPECT_EQ(c.joined().not_finite, "long@momentum") << "a rule state, in one of several blocks";
  }
  auto c = collector();
  c.begin(false);
  ASSERT_TRUE(give_all(c));
  run(c.join());
  EXPECT_EQ(c.joined().not_finite, "");
}

TEST_F(blocks, of_one_parameter_report_the_largest_number_of_updates) {
  auto c = collector();
  c.begin(false);
  give_all(c);
  EXPECT_THAT(c.joined().updates_by_param(*graph, *plan), ElementsAre(Pair("long", 9u), Pair("whole", 7u), Pair("wide", 8u)));
}

TEST_F(blocks, are_requested_from_the_first_server_group) {
  auto c = collector();
  c.begin(true);
  EXPECT_THAT(c.asked_shards(), ElementsAre(one, two));
  EXPECT_THAT(c.asked_stages(), IsEmpty());
  EXPECT_EQ(c.missing(), 5u);
  EXPECT_EQ(c.request(), 1u);
}

TEST_F(blocks, that_were_not_requested_or_do_not_fit_are_dropped) {
  auto c = collector();
  EXPECT_FALSE(c.take({0, 0, of({0, 4}), {of({0, 4})}, 1})) << "no collection is in progress";
  c.begin(false);
  c.begin(false);
  const auto untouched = [&] { return c.missing() == 5; };
  c.take({1, 0, of({0, 4}), {of({0, 4})}, 1});
  EXPECT_TRUE(untouched()) << "an answer to the previous collection";
  c.take({2, 5, of({0, 4}), {of({0, 4})}, 1});
  EXPECT_TRUE(untouched()) << "no such block";
  c.take({2, 0, of({0, 4, 8}), {of({0, 4})}, 1});
  EXPECT_TRUE(untouched()) << "too long";
  c.take({2, 0, of({0, 4}), {}, 1});
  EXPECT_TRUE(untouched()) << "no rule state";
  c.take({2, 0, of({0, 4}), {of({0})}, 1});
  EXPECT_TRUE(untouched()) << "a rule state of a wrong size";
  EXPECT_FALSE(give(c, 0, {0, 4}));
  EXPECT_EQ(c.missing(), 4u);
  EXPECT_FALSE(give(c, 0, {8, 8}));
  EXPECT_EQ(c.missing(), 4u) << "duplicate";
}

TEST_F(blocks, of_carried_state_are_joined_over_the_packets) {
  carries();
  auto c = collector();
  c.begin(true);
  EXPECT_THAT(c.asked_stages(), ElementsAre(role_id{4}, role_id{5}));
  EXPECT_EQ(c.missing(), 7u);
  EXPECT_FALSE(give_all(c));
  EXPECT_FALSE(c.take({1, 6, of({3, 4}, {1, 2}), {of({6}, {1, 1})}, 0}));
  EXPECT_TRUE(c.take({1, 5, of({1, 2}, {1, 2}), {of({5}, {1, 1})}, 0}));
  run(c.join());
  const auto got = c.joined();
  ASSERT_EQ(got.carried.size(), 2u);
  EXPECT_EQ(got.carried[0].first, "lstm.h@carried");
  EXPECT_EQ(got.carried[0].second.dims(), (shape{2, 2}));
  EXPECT_THAT(values(got.carried[0].second), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(got.carried[1].second), ElementsAre(5, 6));
}

TEST_F(blocks, of_carried_state_are_left_out_if_one_packet_has_none_yet) {
  carries();
  auto c = collector();
  c.begin(true);
  give_all(c);
  c.take({1, 6, of({3, 4}, {1, 2}), {of({6}, {1, 1})}, 0});
  EXPECT_TRUE(c.take({1, 5, tensor{}, {}, 0}));
  run(c.join());
  EXPECT_THAT(c.joined().carried, IsEmpty());
}

TEST_F(blocks, of_carried_state_are_not_requested_when_the_job_ends) {
  carries();
  auto c = collector();
  c.begin(false);
  EXPECT_THAT(c.asked_stages(), IsEmpty());
  EXPECT_TRUE(give_all(c));
}

TEST_F(blocks, are_cut_from_parameters_to_their_original_content) {
  carries();
  auto c = collector();
  c.begin(true);
  give_all(c);
  c.take({1, 6, of({3, 4}, {1, 2}), {of({6}, {1, 1})}, 0});
  c.take({1, 5, of({1, 2}, {1, 2}), {of({5}, {1, 1})}, 0});
  run(c.join());
  const auto got = c.joined();
  block_cutter cutter(*graph, plan, {"momentum"}, {30, got.all(), {{"wide", 29}}});
  const auto at_once = cutter.at_once();
  ASSERT_EQ(at_once.size(), 5u) << "two pieces of carried state and three contiguous blocks";
  EXPECT_EQ(at_once[1].to, role_id{5});
  EXPECT_EQ(at_once[1].what.block, 6u);
  EXPECT_THAT(values(at_once[1].what.value), ElementsAre(3, 4));
  EXPECT_THAT(values(at_once[1].what.rule[0]), ElementsAre(6));
  EXPECT_EQ(at_once[2].what.block, 2u);
  EXPECT_EQ(at_once[2].to, one);
  EXPECT_EQ(at_once[2].version, 30u);
  EXPECT_EQ(at_once[2].what.updates, 30u) << "no number is known for this parameter: the step";
  EXPECT_THAT(values(at_once[2].what.value), ElementsAre(10, 11, 12));
  EXPECT_THAT(values(at_once[3].what.rule[0]), ElementsAre(113));
  EXPECT_THAT(cutter.at_once(), IsEmpty());

  ASSERT_TRUE(cutter.more());
  run(cutter.cut());
  const auto picked = cutter.picked();
  ASSERT_EQ(picked.size(), 2u);
  EXPECT_EQ(picked[1].what.block, 1u);
  EXPECT_EQ(picked[1].to, two);
  EXPECT_EQ(picked[1].what.updates, 29u);
  EXPECT_THAT(values(picked[0].what.value), ElementsAre(0, 4));
  EXPECT_THAT(values(picked[1].what.value), ElementsAre(1, 2, 3, 5, 6, 7));
  EXPECT_THAT(values(picked[1].what.rule[0]), ElementsAre(101, 102, 103, 105, 106, 107));
  EXPECT_FALSE(cutter.more());
}

TEST_F(blocks, are_cut_without_missing_carried_state_and_rule_states) {
  carries();
  const named_tensors weights{
      {"wide", of({0, 1, 2, 3, 4, 5, 6, 7}, {2, 4})}, {"long", of({10, 11, 12, 13})}, {"whole", of({20, 21, 22})}};
  block_cutter cutter(*graph, plan, {"momentum"}, {3, weights, {}});
  const auto at_once = cutter.at_once();
  EXPECT_FALSE(at_once[0].what.value) << "no carried state";
  EXPECT_THAT(at_once[2].what.rule, IsEmpty());
}

}  // namespace
}  // namespace troupe
