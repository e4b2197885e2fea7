// Evaluation rounds: reports, the weights that a round evaluates, and when the next one is due.
#include "runtime/coordinator/evaluation_round.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

const report announced{{{"loss", 1.0}}, 1};

TEST(evaluation_round, ends_with_the_last_report) {
  evaluation_round e({0, 0, -1});
  EXPECT_FALSE(e.under_way());
  EXPECT_FALSE(e.take(0, 5, announced));
  e.begin(10, 10, false, {2, 1});
  EXPECT_TRUE(e.is(1));
  EXPECT_FALSE(e.is(0)) << "a report of the previous round";
  EXPECT_FALSE(e.take(1, 5, announced));
  EXPECT_FALSE(e.take(1, 5, announced)) << "duplicate";
  EXPECT_EQ(e.missing(), 1u);
  EXPECT_TRUE(e.take(0, 5, announced));
  EXPECT_FALSE(e.under_way());
  EXPECT_FALSE(e.is(1)) << "the round is over: a late report is not of it";
  e.begin(20, 20, false, {2, 1});
  EXPECT_TRUE(e.is(2));
  EXPECT_EQ(e.past().evaluated, 20u);
}

TEST(evaluation_round, records_the_weights_that_the_last_accuracy_is_of) {
  evaluation_round e({0, 0, -1});
  e.begin(10, 10, false, {1, 1});
  EXPECT_FALSE(e.weights_evaluated(10)) << "not before the end of the round";
  e.take(0, 5, announced);
  e.record_result(0.75);
  EXPECT_TRUE(e.weights_evaluated(10));
  EXPECT_EQ(e.past().accuracy, 0.75);
  e.begin(20, 20, false, {1, 1});
  EXPECT_TRUE(e.weights_evaluated(10)) << "still that of the previous round";
  e.take(0, 5, announced);
  e.record_result(std::nullopt);
  EXPECT_TRUE(e.weights_evaluated(20));
  EXPECT_EQ(e.past().accuracy, 0.75) << "a round without a metric keeps the previous accuracy";
}

TEST(evaluation_round, does_not_count_for_a_step_when_weights_change_during_it) {
  evaluation_round e({0, 0, -1});
  e.begin(10, std::nullopt, true, {1, 1});
  e.take(0, 5, announced);
  e.record_result(0.5);
  EXPECT_FALSE(e.weights_evaluated(10));
  e.begin(11, 11, true, {1, 1});
  e.take(0, 5, announced);
  e.record_result(0.5);
  EXPECT_TRUE(e.weights_evaluated(11));
  e.weights_change();
  EXPECT_FALSE(e.weights_evaluated(11));
}

TEST(evaluation_round, is_due_once_in_every_interval) {
  evaluation_round e({0, 0, -1});
  EXPECT_FALSE(e.due(9, 10));
  EXPECT_TRUE(e.due(10, 10));
  EXPECT_EQ(e.next(9, 10), 10u);
  EXPECT_FALSE(e.made(0)) << "no round yet";
  e.begin(13, std::nullopt, true, {1, 1});
  EXPECT_TRUE(e.made(13));
  EXPECT_FALSE(e.due(19, 10));
  EXPECT_TRUE(e.due(20, 10));
  EXPECT_EQ(e.next(13, 10), 20u);
  e.skip_to(25);
  e.skip_to(14);
  EXPECT_EQ(e.next(25, 10), 30u);
}

TEST(evaluation_round, is_next_due_at_or_after_the_step_where_a_job_continues) {
  evaluation_round e({0, 1, -1});
  EXPECT_EQ(e.next(14, 4), 16u);
  EXPECT_EQ(e.next(16, 4), 16u) << "not evaluated yet";
  e.skip_to(16);
  EXPECT_EQ(e.next(16, 4), 20u);
}

TEST(evaluation_round, continues_the_count_of_the_previous_plan) {
  evaluation_round e({40, 4, 0.25});
  EXPECT_TRUE(e.made(40));
  EXPECT_FALSE(e.weights_evaluated(40)) << "the weights of a new plan are evaluated again";
  e.begin(50, 50, false, {1, 1});
  EXPECT_TRUE(e.is(5));
}

// A metric for which less is better is not the accuracy.
struct error_rate : graph_test::paper_layer {
  error_rate() { what = metric; }
  bool more_is_better() const override { return false; }
};

TEST(verdict, has_the_loss_the_first_metric_with_more_is_better_and_the_rest) {
  model_graph g;
  const auto layer = [&](std::string name, std::shared_ptr<const troupe::layer> maths, double weight = 0) {
    graph_layer l;
    l.name = std::move(name);
    l.maths = std::move(maths);
    l.loss_weight = weight;
    g.layers.push_back(std::move(l));
  };
  const auto paper = [](graph_test::paper_layer::kind k) {
    auto l = std::make_shared<graph_test::paper_layer>();
    l->what = k;
    return l;
  };
  layer("errors", std::make_shared<error_rate>());
  layer("top1", paper(graph_test::paper_layer::metric));
  layer("top5", paper(graph_test::paper_layer::metric));
  layer("near", paper(graph_test::paper_layer::loss), 1);
  layer("far", paper(graph_test::paper_layer::loss), 0.5);
  const auto v = verdict_of(g, {{"errors", 0.1}, {"top1", 0.9}, {"top5", 0.99}, {"near", 2}, {"far", 4}});
  EXPECT_DOUBLE_EQ(v.loss, 4.0);
  EXPECT_EQ(v.accuracy, 0.9);
  EXPECT_THAT(v.others, ElementsAre(Pair("errors", 0.1), Pair("top5", 0.99)));
  EXPECT_EQ(verdict_of(g, {{"near", 2}}).accuracy, std::nullopt);
}

}  // namespace
}  // namespace troupe
