// What the coordinator counts: reports of a packet once, steps complete in order, and nothing of a
// life that is over.
#include "runtime/coordinator/step_ledger.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

report told_of(const std::string& name, double value, std::uint32_t valid = 2) { return {{{name, value}}, valid}; }

// Three workers with two packets each; the last one has one.
job_plan three_workers() {
  job_plan p;
  p.packets = 5;
  p.ranges = {{0, 2}, {2, 2}, {4, 1}};
  p.workers = {role_id{1}, role_id{2}, role_id{3}, role_id{4}};  // one more of a placed layer
  return p;
}

struct counted {
  step_ledger ledger;
  explicit counted(std::uint32_t stages = 1, std::uint64_t first = 0) : ledger(three_workers(), stages, first) {}
  void grant(std::uint64_t until) {
    for (std::uint32_t w = 0; w < ledger.workers(); ++w) ledger.grant(w, until);
  }
  void tell(std::uint64_t step, std::vector<std::uint32_t> packets) {
    for (auto p : packets) EXPECT_TRUE(ledger.take(step, p, 7, told_of("loss", 1))) << "step " << step << ", packet " << p;
  }
  std::vector<std::uint64_t> complete() {
    std::vector<std::uint64_t> steps;
    for (const auto& s : ledger.take_complete()) steps.push_back(s.step);
    return steps;
  }
};

TEST(report_sheet, is_complete_with_every_stage_of_every_packet) {
  report_sheet s(2, 2, {{0, 1}, {1, 1}});
  EXPECT_TRUE(s.take(0, 3, told_of("loss", 1)));
  EXPECT_TRUE(s.take(0, 4, told_of("accuracy", 1)));
  EXPECT_TRUE(s.complete_of(0));
  EXPECT_FALSE(s.complete_of(1));
  EXPECT_TRUE(s.take(1, 4, told_of("accuracy", 1)));
  EXPECT_EQ(s.missing(), 1u);
  EXPECT_FALSE(s.complete());
  EXPECT_TRUE(s.take(1, 3, told_of("loss", 1)));
  EXPECT_TRUE(s.complete());
}

TEST(report_sheet, hears_a_stage_once_of_a_packet_and_nobody_of_packets_that_are_not) {
  model_graph g;
  g.layers.resize(1);
  g.layers[0].name = "loss";
  report_sheet s(2, 1);
  EXPECT_TRUE(s.take(1, 3, told_of("loss", 5)));
  EXPECT_FALSE(s.take(1, 3, told_of("loss", 9))) << "a copy of the portion";
  EXPECT_FALSE(s.take(2, 3, told_of("loss", 9)));
  EXPECT_EQ(s.missing(), 1u);
  EXPECT_THAT(s.means(g), ElementsAre(std::pair<std::string, double>{"loss", 5.0}));
  for (std::uint32_t packets = 0; packets < 40; ++packets) {  // whatever lies behind them in memory
    report_sheet of(packets, 1);
    EXPECT_FALSE(of.take(packets, 3, told_of("loss", 9)));
    EXPECT_EQ(of.missing(), packets);
  }
}

TEST(report_sheet, takes_means_over_examples_layer_by_layer) {
  model_graph g;
  g.layers.resize(3);
  for (std::size_t i = 0; i < 3; ++i) g.layers[i].name = std::vector<std::string>{"loss", "silent", "accuracy"}[i];
  report_sheet s(2, 1);
  s.take(1, 0, {{{"accuracy", 1.0}, {"loss", 4.0}}, 1});
  s.take(0, 0, {{{"accuracy", 0.0}, {"loss", 1.0}}, 3});
  EXPECT_THAT(s.means(g),
              ElementsAre(std::pair<std::string, double>{"loss", 1.75}, std::pair<std::string, double>{"accuracy", 0.25}));
}

TEST(report_sheet, what_was_given_up_is_neither_waited_for_nor_heard) {
  report_sheet s(3, 2, {{0, 2}, {2, 1}});
  s.take(0, 3, told_of("loss", 1));
  s.give_up_packet(0);
  s.give_up_packet(0);
  EXPECT_EQ(s.missing(), 4u);
  EXPECT_FALSE(s.take(0, 4, told_of("accuracy", 1)));
  s.give_up_worker(0);
  EXPECT_EQ(s.missing(), 2u);
  EXPECT_TRUE(s.complete_of(0));
  s.take(2, 3, told_of("loss", 1));
  s.take(2, 4, told_of("accuracy", 1));
  s.give_up_packet(2);
  EXPECT_TRUE(s.complete()) << "a packet that is all here has nothing to give up";
}

TEST(report_sheet, knows_who_reports_from_the_graph_and_the_plan) {
  const auto job = graph_test::small_net();
  auto built = graph_test::try_graph(job);
  const auto& g = std::get<model_graph>(built);
  const auto made = make_plan(job, g, graph_test::nodes_named({"n1", "n2"}), {{}, true});
  const auto& p = std::get<job_plan>(made);
  EXPECT_EQ(reporting_stages(g, p, true, false), 1u) << "the loss";
  EXPECT_EQ(reporting_stages(g, p, false, false), 2u) << "loss and accuracy, a stage each";
  EXPECT_EQ(reporting_stages(g, p, false, true), 1u) << "the tester has one stage";
  EXPECT_FALSE(reports_in(g, p[p.loaders[0]], true));
  for (const auto& r : p.roles)
    if (r.name == "worker0/accuracy") {
      EXPECT_FALSE(reports_in(g, r, true));
      EXPECT_TRUE(reports_in(g, r, false));
    }
}

TEST(report_sheet, weighs_losses_and_leaves_metrics_alone) {
  auto job = graph_test::small_net();
  auto built = graph_test::try_graph(job);
  auto& g = std::get<model_graph>(built);
  for (auto& l : g.layers) l.loss_weight = 0.5;
  EXPECT_DOUBLE_EQ(loss_of(g, {{"accuracy", 100.0}, {"loss", 3.0}}), 1.5);
  EXPECT_DOUBLE_EQ(loss_of(g, {}), 0.0);
}

TEST(step_ledger, steps_are_complete_in_order_and_once) {
  counted c;
  c.grant(3);
  c.tell(1, {0, 1, 2, 3, 4});
  EXPECT_THAT(c.complete(), IsEmpty()) << "step 0 comes first";
  c.tell(0, {0, 1, 2, 3});
  EXPECT_THAT(c.complete(), IsEmpty());
  c.tell(0, {4});
  EXPECT_THAT(c.complete(), ElementsAre(0u, 1u));
  EXPECT_EQ(c.ledger.completed(), 2u);
  EXPECT_THAT(c.complete(), IsEmpty());
}

TEST(step_ledger, believes_nothing_of_steps_that_are_over_or_granted_to_nobody) {
  counted c(1, 10);
  EXPECT_FALSE(c.ledger.take(10, 0, 7, told_of("loss", 1)));
  c.ledger.grant(1, 12);
  EXPECT_TRUE(c.ledger.take(11, 0, 7, told_of("loss", 1))) << "granted to somebody";
  EXPECT_FALSE(c.ledger.take(12, 0, 7, told_of("loss", 1)));
  EXPECT_FALSE(c.ledger.take(9, 0, 7, told_of("loss", 1)));
  c.tell(10, {0, 1, 2, 3, 4});
  EXPECT_THAT(c.complete(), ElementsAre(10u));
  EXPECT_FALSE(c.ledger.take(10, 0, 8, told_of("loss", 1))) << "late";
}

TEST(step_ledger, grants_never_shrink) {
  counted c;
  EXPECT_TRUE(c.ledger.grant(0, 4));
  EXPECT_FALSE(c.ledger.grant(0, 4));
  EXPECT_FALSE(c.ledger.grant(0, 3));
  EXPECT_TRUE(c.ledger.grant(1, 2));
  EXPECT_EQ(c.ledger.granted(0), 4u);
  EXPECT_EQ(c.ledger.max_granted(), 4u);
}

TEST(step_ledger, every_worker_has_progress_of_its_own) {
  counted c;
  c.grant(9);
  for (std::uint64_t s = 0; s < 6; ++s) c.tell(s, {0, 1});
  for (std::uint64_t s = 0; s < 3; ++s) c.tell(s, {4});
  EXPECT_THAT(c.complete(), IsEmpty());
  EXPECT_EQ(c.ledger.done(0), 6u);
  EXPECT_EQ(c.ledger.done(1), 0u);
  EXPECT_EQ(c.ledger.done(2), 3u);
  EXPECT_EQ(c.ledger.mean_done(), 3u);
  EXPECT_EQ(c.ledger.most_done(), 6u);
}

TEST(step_ledger, a_restarted_worker_is_not_waited_for_below_the_step_it_joined_at) {
  counted c;
  c.grant(3);
  c.tell(0, {0, 1, 4});
  c.tell(1, {0, 1, 4});
  c.tell(2, {0, 1, 4});
  c.ledger.give_up_before(1, 2);
  EXPECT_THAT(c.complete(), ElementsAre(0u, 1u));
  EXPECT_EQ(c.ledger.done(1), 2u);
  EXPECT_TRUE(c.ledger.take(2, 2, 7, told_of("loss", 1))) << "what it computes from there on counts";
}

TEST(step_ledger, a_late_report_of_a_restarted_worker_changes_nothing) {
  counted c;
  c.grant(3);
  c.tell(0, {2});
  c.ledger.give_up_before(1, 2);
  EXPECT_FALSE(c.ledger.take(0, 3, 7, told_of("loss", 99)));
  EXPECT_FALSE(c.ledger.take(1, 2, 7, told_of("loss", 99))) << "nothing was known of this step before";
  c.tell(0, {0, 1, 4});
  EXPECT_THAT(c.complete(), ElementsAre(0u));
}

TEST(step_ledger, an_older_word_of_a_worker_does_not_bring_back_what_was_given_up) {
  counted c;
  c.grant(5);
  c.ledger.give_up_before(0, 4);
  c.ledger.give_up_before(0, 2);
  EXPECT_FALSE(c.ledger.take(3, 0, 7, told_of("loss", 1)));
}

TEST(step_ledger, steps_that_nobody_can_report_of_are_complete_once_they_are_opened) {
  step_ledger alone(
      [] {
        job_plan p;
        p.packets = 1;
        p.ranges = {{0, 1}};
        p.workers = {role_id{1}};
        return p;
      }(),
      1, 0);
  alone.grant(0, 5);
  alone.give_up_before(0, 3);
  EXPECT_THAT(alone.take_complete(), IsEmpty());
  alone.open_below(3);
  EXPECT_EQ(alone.take_complete().size(), 3u);
  EXPECT_EQ(alone.completed(), 3u);
}

TEST(step_ledger, packets_are_given_up_in_steps_that_are_known_only) {
  counted c;
  c.grant(3);
  c.tell(0, {0, 1, 2, 3});
  c.tell(1, {0});
  c.ledger.give_up_packets([](std::uint64_t step, std::uint32_t packet) { return step == 0 && packet == 4; });
  EXPECT_THAT(c.complete(), ElementsAre(0u));
  EXPECT_TRUE(c.ledger.take(1, 4, 7, told_of("loss", 1)));
  EXPECT_TRUE(c.ledger.take(2, 4, 7, told_of("loss", 1)));
}

TEST(step_ledger, knows_a_life_that_says_twice_that_it_is_there) {
  counted c;
  EXPECT_FALSE(c.ledger.meet(1, 0)) << "the first life is known to nobody";
  EXPECT_FALSE(c.ledger.meet(1, 0));
  EXPECT_FALSE(c.ledger.meet(1, 2));
  EXPECT_TRUE(c.ledger.meet(1, 2));
  EXPECT_FALSE(c.ledger.meet(1, 3));
  EXPECT_EQ(c.ledger.life(1), 3u);
  EXPECT_FALSE(c.ledger.meet(3, 1)) << "the half of a placed layer has lives too";
  EXPECT_EQ(c.ledger.life(0), 0u);
}

}  // namespace
}  // namespace troupe
