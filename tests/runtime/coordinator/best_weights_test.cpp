// Which evaluation is the best, and the weights that the tester sends.
#include "runtime/coordinator/best_weights.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/coordinator/histogram_sheets.hpp"
#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

TEST(best_weights, a_higher_accuracy_is_better) {
  best_weights b(true, {});
  EXPECT_TRUE(b.note({10, 0.5, 9}));
  EXPECT_TRUE(b.pending());
  EXPECT_FALSE(b.so_far()) << "not before it is stored";
  EXPECT_EQ(b.stored().step, 10u);
  EXPECT_FALSE(b.pending());
  EXPECT_FALSE(b.note({20, 0.5, 9})) << "equal";
  EXPECT_FALSE(b.note({30, std::nan(""), 1}));
  EXPECT_FALSE(b.pending());
  EXPECT_TRUE(b.note({40, 0.75, 20}));
  b.give_up();
  EXPECT_EQ(b.so_far()->step, 10u);
  EXPECT_TRUE(b.note({50, 0.625, 1})) << "the better one has not been stored";
}

TEST(best_weights, of_equal_accuracies_the_lower_loss_is_better) {
  best_weights b(true, best_evaluation{10, 0.5, 0.56});
  EXPECT_FALSE(b.note({20, 0.5, 0.57}));
  EXPECT_FALSE(b.note({20, 0.5, std::nan("")}));
  EXPECT_TRUE(b.note({30, 0.5, 0.007}));
  EXPECT_EQ(b.stored().step, 30u);
  best_weights unknown(true, best_evaluation{10, 0.5, std::nan("")});
  EXPECT_TRUE(unknown.note({20, 0.5, 3}));
}

TEST(best_so_far, names_the_best_of_the_steps_that_remain_after_the_job_has_gone_back) {
  best_so_far b;
  EXPECT_FALSE(b.note({5, std::nan(""), 1}));
  EXPECT_FALSE(b.best());
  EXPECT_TRUE(b.note({10, 0.5, 2}));
  EXPECT_FALSE(b.note({20, 0.25, 1}));
  EXPECT_TRUE(b.note({30, 0.75, 2}));
  EXPECT_TRUE(b.note({40, 0.75, 1}));
  b.go_back(30);
  EXPECT_EQ(b.best()->step, 30u);
  b.go_back(29);
  EXPECT_EQ(b.best()->step, 10u);
  b.go_back(0);
  EXPECT_FALSE(b.best());
}

TEST(best_weights, without_accuracy_a_lower_loss_is_better) {
  best_weights b(true, best_evaluation{5, {}, 2.0});
  EXPECT_FALSE(b.note({10, {}, 2.0}));
  EXPECT_FALSE(b.note({10, {}, std::numeric_limits<double>::infinity()}));
  EXPECT_FALSE(b.note({10, {}, std::nan("")}));
  EXPECT_TRUE(b.note({10, {}, 1.5}));
}

TEST(best_weights, notes_nothing_unless_it_keeps) {
  best_weights b(false, {});
  EXPECT_FALSE(b.note({10, 0.5, 9}));
  EXPECT_FALSE(b.pending());
}

// A change of the model between two plans does not occur; a resumed job may have other metrics.
TEST(best_weights, replaces_an_evaluation_of_the_other_kind) {
  best_weights b(true, best_evaluation{5, 0.9, 2.0});
  EXPECT_TRUE(b.note({10, {}, 3.0}));
}

struct net {
  job_spec job = graph_test::small_net();
  std::shared_ptr<model_graph> graph = std::make_shared<model_graph>(graph_test::try_graph(job).value());
  layer_weights of(std::uint32_t layer) const {
    layer_weights w{layer, {}};
    for (auto p : graph->layers[layer].params) w.values.push_back(tensor::declare(graph->params[p].spec.dims, dtype::f32));
    return w;
  }
};

TEST(best_weights, takes_each_layer_of_the_round_once) {
  const net n;
  best_weights b(true, {});
  b.note({10, 0.5, 9});
  b.fetch(3);
  EXPECT_TRUE(b.fetching());
  std::uint32_t layers = 0;
  for (std::uint32_t l = 0; l < n.graph->layers.size(); ++l) {
    if (n.graph->layers[l].params.empty()) {
      EXPECT_FALSE(b.take(3, n.of(l), *n.graph, dtype::f32)) << "a layer without parameters";
      continue;
    }
    EXPECT_FALSE(b.complete(*n.graph));
    EXPECT_FALSE(b.take(2, n.of(l), *n.graph, dtype::f32)) << "another round";
    EXPECT_FALSE(b.take(3, n.of(l), *n.graph, dtype::f64)) << "another type";
    EXPECT_FALSE(b.take(3, layer_weights{l, {}}, *n.graph, dtype::f32));
    EXPECT_TRUE(b.take(3, n.of(l), *n.graph, dtype::f32));
    EXPECT_FALSE(b.take(3, n.of(l), *n.graph, dtype::f32)) << "repeated";
    ++layers;
  }
  EXPECT_GT(layers, 1u);
  EXPECT_FALSE(b.take(3, layer_weights{1000, {}}, *n.graph, dtype::f32));
  ASSERT_TRUE(b.complete(*n.graph));
  const auto named = b.named(*n.graph);
  ASSERT_EQ(named.size(), n.graph->params.size());
  for (std::size_t i = 0; i < named.size(); ++i) EXPECT_EQ(named[i].first, n.graph->params[i].full_name);
  b.stored();
  EXPECT_FALSE(b.fetching());
  EXPECT_FALSE(b.take(3, n.of(0), *n.graph, dtype::f32)) << "not requested any more";
}

// --- histogram_sheets

struct sheets_of_net : net {
  std::shared_ptr<job_plan> plan = [&] {
    job.topology.max_block = 64;
    return std::make_shared<job_plan>(make_plan(job, *graph, graph_test::nodes_named({"n1"}), {{}, true, 1, 0}).value());
  }();
  histogram sample(std::uint32_t block) const {
    const auto n = static_cast<std::uint64_t>(plan->blocks[block].count);
    return {block, {n, n, 0, 0, 0, 0, 0, {{static_cast<std::uint16_t>(bucket_of(0)), n}}}, {}};
  }
  header from(std::uint32_t block, std::uint64_t step) const {
    header h;
    h.src = plan->shard_of(plan->blocks[block], 0);
    h.step = step;
    return h;
  }
};

TEST(histogram_sheets, adds_the_blocks_of_each_parameter) {
  const sheets_of_net n;
  ASSERT_GT(n.plan->blocks.size(), n.graph->params.size());
  histogram_sheets s(n.graph, n.plan, 5, 0);
  for (std::uint32_t b = 0; b < n.plan->blocks.size(); ++b) {
    EXPECT_TRUE(s.complete().empty());
    auto h = n.sample(b);
    h.gradient = {h.weight};
    EXPECT_EQ(s.take(n.from(b, 5), h, true), std::nullopt);
    EXPECT_EQ(s.take(n.from(b, 5), h, true), drop_reason::repeated);
  }
  const auto events = s.complete();
  ASSERT_EQ(events.size(), 2 * n.graph->params.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto& p = n.graph->params[i / 2];
    EXPECT_EQ(events[i].step, 5u);
    const auto* h = events[i].as<histogram_event>();
    ASSERT_TRUE(h);
    EXPECT_EQ(h->parameter, p.full_name);
    EXPECT_EQ(h->gradient, i % 2 == 1);
    EXPECT_EQ(h->values.count, static_cast<std::uint64_t>(p.spec.dims.count()));
  }
  EXPECT_EQ(s.take(n.from(0, 5), n.sample(0), true), drop_reason::unrequested) << "that step is complete";
}

TEST(histogram_sheets, drops_histograms_that_are_not_due) {
  const sheets_of_net n;
  histogram_sheets s(n.graph, n.plan, 5, 20);
  EXPECT_EQ(s.take(n.from(0, 20), n.sample(0), true), drop_reason::unrequested) << "before the first step";
  EXPECT_EQ(s.take(n.from(0, 26), n.sample(0), true), drop_reason::unrequested);
  EXPECT_EQ(s.take(n.from(0, 25), n.sample(0), false), drop_reason::unrequested) << "out of lockstep each is requested";
  EXPECT_TRUE(s.request(26));
  EXPECT_FALSE(s.request(26));
  EXPECT_EQ(s.take(n.from(0, 26), n.sample(0), false), std::nullopt);
  EXPECT_FALSE(s.due(24));
  EXPECT_TRUE(s.due(26));
  EXPECT_FALSE(s.due(29));
  EXPECT_TRUE(s.due(41));
}

TEST(histogram_sheets, refuses_malformed_messages) {
  const sheets_of_net n;
  histogram_sheets s(n.graph, n.plan, 5, 0);
  auto beyond = n.sample(0);
  beyond.block = static_cast<std::uint32_t>(n.plan->blocks.size());
  EXPECT_EQ(s.take(n.from(0, 5), beyond, true), drop_reason::misaddressed);
  auto elsewhere = n.from(0, 5);
  elsewhere.src = role_id{0};
  EXPECT_EQ(s.take(elsewhere, n.sample(0), true), drop_reason::misaddressed);
  auto short_of_one = n.sample(0);
  --short_of_one.weight.count;
  EXPECT_EQ(s.take(n.from(0, 5), short_of_one, true), drop_reason::malformed);
  auto two = n.sample(0);
  two.gradient = {two.weight, two.weight};
  EXPECT_EQ(s.take(n.from(0, 5), two, true), drop_reason::malformed);
  EXPECT_EQ(s.take(n.from(0, 5), n.sample(0), true), std::nullopt);
}

// Steps that were skipped leave sheets that never become complete.
TEST(histogram_sheets, discards_the_oldest_of_many_open_steps) {
  const sheets_of_net n;
  histogram_sheets s(n.graph, n.plan, 1, 0);
  for (std::uint64_t step = 1; step <= 20; ++step) EXPECT_EQ(s.take(n.from(0, step), n.sample(0), true), std::nullopt);
  EXPECT_EQ(s.take(n.from(1, 1), n.sample(1), true), drop_reason::outdated);
  EXPECT_EQ(s.take(n.from(0, 20), n.sample(0), true), drop_reason::repeated);
}

}  // namespace
}  // namespace troupe
