// The coordinator's counts: each report counts once, and steps complete in order.
#include "runtime/coordinator/step_ledger.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

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
  p.workers = {role_id{1}, role_id{2}, role_id{3}, role_id{4}};  // the last one hosts placed layers
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

TEST(report_sheet, drops_duplicates_and_reports_of_packets_that_do_not_exist) {
  model_graph g;
  g.layers.resize(1);
  g.layers[0].name = "loss";
  report_sheet s(2, 1);
  EXPECT_TRUE(s.take(1, 3, told_of("loss", 5)));
  EXPECT_FALSE(s.take(1, 3, told_of("loss", 9))) << "a copy of the work unit";
  EXPECT_FALSE(s.take(2, 3, told_of("loss", 9)));
  EXPECT_EQ(s.missing(), 1u);
  EXPECT_THAT(s.means(g), ElementsAre(std::pair<std::string, double>{"loss", 5.0}));
  for (std::uint32_t packets = 0; packets < 40; ++packets) {  // independent of the memory after the vector
    report_sheet of(packets, 1);
    EXPECT_FALSE(of.take(packets, 3, told_of("loss", 9)));
    EXPECT_EQ(of.missing(), packets);
  }
}

TEST(report_sheet, computes_means_over_examples_layer_by_layer) {
  model_graph g;
  g.layers.resize(3);
  for (std::size_t i = 0; i < 3; ++i) g.layers[i].name = std::vector<std::string>{"loss", "silent", "accuracy"}[i];
  report_sheet s(2, 1);
  s.take(1, 0, {{{"accuracy", 1.0}, {"loss", 4.0}}, 1});
  s.take(0, 0, {{{"accuracy", 0.0}, {"loss", 1.0}}, 3});
  EXPECT_THAT(s.means(g),
              ElementsAre(std::pair<std::string, double>{"loss", 1.75}, std::pair<std::string, double>{"accuracy", 0.25}));
}

TEST(report_sheet, the_loss_is_not_a_number_if_nothing_counts) {
  const auto g = graph_test::try_graph(graph_test::small_net()).value();
  report_sheet s(1, 1);
  s.take(0, 0, {{{"accuracy", 0.0}, {"loss", 0.0}}, 2, {0, 0}});
  const auto means = s.means(g);
  ASSERT_EQ(means.size(), 2u);
  for (const auto& [name, value] : means) EXPECT_EQ(std::isnan(value), name == "loss") << name << " " << value;
}

TEST(report_sheet, derives_the_reporting_stages_from_the_graph_and_the_plan) {
  const auto job = graph_test::small_net();
  auto built = graph_test::try_graph(job);
  const auto& g = *built;
  const auto made = make_plan(job, g, graph_test::nodes_named({"n1", "n2"}), {{}, true});
  const auto& p = *made;
  EXPECT_EQ(reporting_stages(g, p, true, false), 1u) << "the loss";
  EXPECT_EQ(reporting_stages(g, p, false, false), 2u) << "loss and accuracy, one stage each";
  EXPECT_EQ(reporting_stages(g, p, false, true), 1u) << "the tester has one stage";
  EXPECT_FALSE(reports_in(g, p[p.loaders[0]], true));
  for (const auto& r : p.roles)
    if (r.name == "worker0/accuracy") {
      EXPECT_FALSE(reports_in(g, r, true));
      EXPECT_TRUE(reports_in(g, r, false));
    }
}

TEST(report_sheet, weighs_losses_and_ignores_metrics) {
  auto job = graph_test::small_net();
  auto built = graph_test::try_graph(job);
  auto& g = *built;
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

TEST(step_ledger, drops_reports_of_steps_that_are_complete_or_not_granted) {
  counted c(1, 10);
  EXPECT_FALSE(c.ledger.take(10, 0, 7, told_of("loss", 1)));
  c.ledger.grant(1, 12);
  EXPECT_TRUE(c.ledger.take(11, 0, 7, told_of("loss", 1))) << "granted to one worker";
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

TEST(step_ledger, counts_the_progress_of_each_worker) {
  counted c;
  c.grant(9);
  for (std::uint64_t s = 0; s < 6; ++s) c.tell(s, {0, 1});
  for (std::uint64_t s = 0; s < 3; ++s) c.tell(s, {4});
  EXPECT_THAT(c.complete(), IsEmpty());
  EXPECT_EQ(c.ledger.done(0), 6u);
  EXPECT_EQ(c.ledger.done(1), 0u);
  EXPECT_EQ(c.ledger.done(2), 3u);
  EXPECT_EQ(c.ledger.mean_done(), 3u);
  EXPECT_EQ(c.ledger.max_done(), 6u);
}

// The ledger counted anew from all reports, for any order of reports and grants.
struct counted_anew {
  static constexpr std::uint32_t steps = 8, packets = 5, workers = 3;
  bool have[steps][packets] = {};
  bool seen[steps] = {};  // the step has had a report: its sheet exists
  std::uint64_t completed = 0, granted[workers] = {}, done[workers] = {};

  static std::uint32_t owner(std::uint32_t packet) { return packet / 2; }
  bool complete_of(std::uint64_t step, std::uint32_t worker) const {
    for (std::uint32_t p = 0; p < packets; ++p)
      if (owner(p) == worker && !have[step][p]) return false;
    return true;
  }
  std::uint64_t max_granted() const { return *std::max_element(granted, granted + workers); }
  bool take(std::uint64_t step, std::uint32_t packet) {
    if (step < completed || step >= max_granted()) return false;
    seen[step] = true;
    if (have[step][packet]) return false;
    return have[step][packet] = true;
  }
  void take_complete() {
    const auto all = [&](std::uint64_t s) {
      for (std::uint32_t w = 0; w < workers; ++w)
        if (!complete_of(s, w)) return false;
      return true;
    };
    while (completed < steps && seen[completed] && all(completed)) ++completed;
    for (std::uint32_t w = 0; w < workers; ++w) {
      done[w] = std::max(done[w], completed);
      while (done[w] < steps && done[w] >= completed && seen[done[w]] && complete_of(done[w], w)) ++done[w];
    }
  }
};

TEST(step_ledger, progress_equals_that_counted_anew_from_all_reports) {
  std::mt19937 random(7);
  for (int run = 0; run < 300; ++run) {
    counted c;
    counted_anew want;
    std::vector<std::uint64_t> before(counted_anew::workers, 0);
    for (int i = 0; i < 150; ++i) {
      const auto w = static_cast<std::uint32_t>(random() % counted_anew::workers);
      const auto step = random() % counted_anew::steps;
      const auto packet = static_cast<std::uint32_t>(random() % counted_anew::packets);
      if (const auto kind = random() % 10; kind == 0) {
        const auto until = std::min<std::uint64_t>(want.granted[w] + 2, counted_anew::steps);
        EXPECT_EQ(c.ledger.grant(w, until), until > want.granted[w]);
        want.granted[w] = std::max(want.granted[w], until);
      } else {
        ASSERT_EQ(c.ledger.take(step, packet, 7, told_of("loss", 1)), want.take(step, packet)) << "run " << run << ", " << i;
      }
      if (random() % 3 == 0) continue;
      c.ledger.take_complete();
      want.take_complete();
      ASSERT_EQ(c.ledger.completed(), want.completed) << "run " << run << ", " << i;
      ASSERT_EQ(c.ledger.max_granted(), want.max_granted()) << "run " << run << ", " << i;
      std::vector<std::uint32_t> risen;
      std::uint64_t sum = 0, most = 0;
      for (std::uint32_t of = 0; of < counted_anew::workers; ++of) {
        ASSERT_EQ(c.ledger.done(of), want.done[of]) << "run " << run << ", " << i << ", worker " << of;
        if (want.done[of] > std::exchange(before[of], want.done[of])) risen.push_back(of);
        sum += want.done[of], most = std::max(most, want.done[of]);
      }
      ASSERT_EQ(c.ledger.take_risen(), risen) << "run " << run << ", " << i;
      ASSERT_EQ(c.ledger.mean_done(), sum / counted_anew::workers);
      ASSERT_EQ(c.ledger.max_done(), most);
    }
  }
}

}  // namespace
}  // namespace troupe
