// Rounds of evaluation: of whose reports, of which weights, and when the next is due.
#include "runtime/coordinator/evaluation_round.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

const report told{{{"loss", 1.0}}, 1};

TEST(evaluation_round, ends_with_the_last_report) {
  evaluation_round e({0, 0, -1});
  EXPECT_FALSE(e.under_way());
  EXPECT_FALSE(e.take(0, 5, told));
  e.begin(10, 10, false, {2, 1});
  EXPECT_TRUE(e.is(1));
  EXPECT_FALSE(e.is(0)) << "a report of the round before";
  EXPECT_FALSE(e.take(1, 5, told));
  EXPECT_FALSE(e.take(1, 5, told)) << "twice";
  EXPECT_EQ(e.missing(), 1u);
  EXPECT_TRUE(e.take(0, 5, told));
  EXPECT_FALSE(e.under_way());
  EXPECT_FALSE(e.is(1)) << "a late report belongs to nothing";
  e.begin(20, 20, false, {2, 1});
  EXPECT_TRUE(e.is(2));
  EXPECT_EQ(e.past().evaluated, 20u);
}

TEST(evaluation_round, knows_of_which_weights_the_last_accuracy_is) {
  evaluation_round e({0, 0, -1});
  e.begin(10, 10, false, {1, 1});
  EXPECT_FALSE(e.weights_evaluated(10)) << "not before its end";
  e.take(0, 5, told);
  e.record_result(0.75);
  EXPECT_TRUE(e.weights_evaluated(10));
  EXPECT_EQ(e.past().accuracy, 0.75);
  e.begin(20, 20, false, {1, 1});
  EXPECT_TRUE(e.weights_evaluated(10)) << "still that of the round before";
  e.take(0, 5, told);
  e.record_result(std::nullopt);
  EXPECT_TRUE(e.weights_evaluated(20));
  EXPECT_EQ(e.past().accuracy, 0.75) << "a net without a metric says nothing of it";
}

TEST(evaluation_round, of_weights_that_change_judges_no_step) {
  evaluation_round e({0, 0, -1});
  e.begin(10, std::nullopt, true, {1, 1});
  e.take(0, 5, told);
  e.record_result(0.5);
  EXPECT_FALSE(e.weights_evaluated(10));
  e.begin(11, 11, true, {1, 1});
  e.take(0, 5, told);
  e.record_result(0.5);
  EXPECT_TRUE(e.weights_evaluated(11));
  e.weights_change();
  EXPECT_FALSE(e.weights_evaluated(11));
}

TEST(evaluation_round, begins_anew_with_a_new_life_of_the_tester) {
  evaluation_round e({0, 0, -1});
  EXPECT_FALSE(e.tester_lives(0));
  e.begin(10, std::nullopt, true, {2, 1});
  e.take(0, 5, told);
  EXPECT_FALSE(e.tester_lives(0)) << "the life that began the round";
  EXPECT_TRUE(e.tester_lives(1));
  EXPECT_EQ(e.missing(), 2u) << "what the former life has reported is void";
  e.take(0, 5, told);
  EXPECT_FALSE(e.tester_lives(1)) << "by its word or its reports, whichever comes first";
  EXPECT_EQ(e.missing(), 1u);
  EXPECT_TRUE(e.is(1)) << "the same round, asked again";
}

TEST(evaluation_round, a_tester_that_was_restarted_between_rounds_or_beside_workers_voids_nothing) {
  evaluation_round e({0, 0, -1});
  EXPECT_FALSE(e.tester_lives(1));
  e.begin(10, std::nullopt, true, {2, 1});
  e.take(0, 5, told);
  EXPECT_FALSE(e.tester_lives(1)) << "this life was asked";
  evaluation_round all({0, 0, -1});
  all.begin(10, 10, false, {2, 1});
  all.take(0, 5, told);
  EXPECT_FALSE(all.tester_lives(3));
  EXPECT_EQ(all.missing(), 1u);
}

TEST(evaluation_round, is_due_once_in_every_interval) {
  evaluation_round e({0, 0, -1});
  EXPECT_FALSE(e.due(9, 10));
  EXPECT_TRUE(e.due(10, 10));
  EXPECT_EQ(e.next(10), 10u);
  EXPECT_FALSE(e.made(0)) << "no round has been";
  e.begin(13, std::nullopt, true, {1, 1});
  EXPECT_TRUE(e.made(13));
  EXPECT_FALSE(e.due(19, 10));
  EXPECT_TRUE(e.due(20, 10));
  EXPECT_EQ(e.next(10), 20u);
  e.skip_to(25);
  e.skip_to(14);
  EXPECT_EQ(e.next(10), 30u);
}

TEST(evaluation_round, goes_on_where_the_plan_before_ended) {
  evaluation_round e({40, 4, 0.25});
  EXPECT_TRUE(e.made(40));
  EXPECT_FALSE(e.weights_evaluated(40)) << "the next plan's weights are judged anew";
  e.begin(50, 50, false, {1, 1});
  EXPECT_TRUE(e.is(5));
}

TEST(evaluation_round, workers_that_evaluate_later_are_named_once) {
  evaluation_round e({0, 0, -1});
  e.put_off(3, true);
  e.put_off(1, true);
  e.put_off(2, true);
  e.put_off(2, false);
  EXPECT_THAT(e.take_put_off(), ElementsAre(1u, 3u));
  EXPECT_TRUE(e.take_put_off().empty());
}

// Metrics of which less is better are none to go by.
struct error_rate : graph_test::paper_layer {
  error_rate() { what = metric; }
  bool more_is_better() const override { return false; }
};

TEST(verdict, is_the_loss_the_first_metric_of_which_more_is_better_and_the_others) {
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
