// Everything that a plan sends in one message between nodes fits into it, for layers of any size;
// plans for which this is impossible are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/plan/message_sizes.hpp"
#include "runtime/plan/plan_check.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using namespace graph_test;
using ::testing::HasSubstr;

constexpr std::int64_t gib = std::int64_t{1} << 30;

layer_spec at(layer_spec s, const std::string& partition, std::vector<std::string> place) {
  s.partition = partition;
  s.place = std::move(place);
  s.key_at["partition"] = {};
  return s;
}

struct tried {
  job_spec job;
  model_graph graph;
  expected<job_plan, diagnostics> plan;

  tried(job_spec j, const shape& example, std::uint32_t rule_states) : job(std::move(j)) {
    layer_registry all;
    add_stock_layers(all);
    auto g = build_graph(job, all, {example, 4});
    if (!g) ADD_FAILURE() << ::testing::PrintToString(texts(g.error()));
    graph = *std::move(g);
    plan_options o;
    o.rule_states = rule_states;
    plan = make_plan(job, graph, nodes_named({"n1", "n2"}), o);
  }
  tried(const tried&) = delete;

  const job_plan& made() const {
    if (!plan) throw std::runtime_error(texts(plan.error()).at(0));
    return *plan;
  }
  std::int64_t largest_state(std::uint32_t rule_states) const {
    std::int64_t most = 0;
    for (const auto& b : made().blocks) most = std::max(most, b.count * 4 * (1 + std::int64_t{rule_states}));
    return most;
  }
};

// VGG's fc6: 102,760,448 weights. A shard sends the value and all states of the rule of a block in
// one message when they are collected.
TEST(message_sizes, blocks_of_a_large_layer_fit_into_a_message_with_all_rule_states) {
  for (const std::uint32_t states : {0u, 1u, 2u, 3u, 7u}) {
    const tried t(
        job_of({linear("fc6", "data", 4096), linear("score", "fc6", 4), spec("loss", "softmax_loss", {"score", "label"})}),
        shape{25088}, states);
    EXPECT_LT(t.largest_state(states), gib) << states << " states of the rule";
    EXPECT_TRUE(check_plan(t.made(), t.graph).empty());
  }
}

// The same with a split input: every part has columns of the weights, on its own node.
TEST(message_sizes, columns_are_cut_between_rows) {
  const tried t(
      job_of({at(linear("wide", "data", 400000), "none", {"n1"}), at(linear("fc", "wide", 2000), "input", {"n1", "n2"}),
              at(linear("score", "fc", 4), "none", {"n1"}), at(spec("loss", "softmax_loss", {"score", "label"}), "none", {"n1"})}),
      shape{5}, 2);
  EXPECT_LT(t.largest_state(2), gib);
  EXPECT_TRUE(check_plan(t.made(), t.graph).empty());
}

// The size of a packet of activations follows from the job: 64 examples of 5,000,000 features.
TEST(message_sizes, packet_beyond_the_message_limit_is_refused_with_layer_and_bytes) {
  auto j = job_of({at(linear("wide", "data", 5000000), "none", {"n1"}), at(linear("score", "wide", 4), "none", {"n2"}),
                   at(spec("loss", "softmax_loss", {"score", "label"}), "none", {"n2"})});
  j.data.batch = 64;
  j.pipeline.packets = 1;
  const tried t(std::move(j), shape{5}, 1);
  const auto* wrong = t.plan ? nullptr : &t.plan.error();
  ASSERT_TRUE(wrong) << "1.28 GB do not fit into one message";
  EXPECT_THAT(texts(*wrong).at(0), HasSubstr("layer 'wide'"));
  EXPECT_THAT(texts(*wrong).at(0), HasSubstr("1280000000 bytes"));
}

// Gossiping workers send each other whole layers: 286,720,000 weights do not fit into a message
// between nodes; workers on one node need no message.
TEST(message_sizes, layer_too_large_to_send_whole_between_workers_is_named) {
  for (const bool apart : {true, false}) {
    auto j = job_of({linear("fc6", "data", 4096), linear("score", "fc6", 4), spec("loss", "softmax_loss", {"score", "label"})});
    j.topology.workers_per_group = apart ? 2 : 1;
    const tried t(std::move(j), shape{70000}, 1);
    const auto why = test::error_text(check_message_sizes(t.made(), t.graph, t.job, gib));
    if (apart)
      EXPECT_THAT(why, HasSubstr("layer 'fc6'"));
    else
      EXPECT_EQ(why, "");
  }
}

}  // namespace
}  // namespace troupe
