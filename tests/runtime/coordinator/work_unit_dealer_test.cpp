// Work units are dealt, done and dealt again, within a step and from one step to the next.
#include "runtime/coordinator/work_unit_dealer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// (worker, first packet)
std::vector<std::pair<std::uint32_t, std::uint32_t>> brief(const std::vector<work_unit_book::deal>& deals) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> list;
  for (const auto& d : deals) list.emplace_back(d.worker, d.what.first);
  return list;
}
std::vector<std::uint32_t> firsts(const std::vector<work_unit>& list) {
  std::vector<std::uint32_t> out;
  for (const auto& p : list) out.push_back(p.first);
  return out;
}

TEST(work_unit_book, deals_units_ahead_and_then_copies_to_idle_workers) {
  work_unit_book b(4, 5, 2, 2);
  const auto deals = b.next();
  EXPECT_THAT(brief(deals), ElementsAre(Pair(0, 0), Pair(1, 2), Pair(0, 4)));
  EXPECT_EQ(deals[2].what.count, 1u) << "the last unit has the remaining packets";
  EXPECT_EQ(deals[0].what.step, 4u);
  EXPECT_TRUE(b.done(1, 2));
  EXPECT_THAT(brief(b.next()), ElementsAre(Pair(1, 0))) << "an idle worker gets a copy of the oldest open unit";
  EXPECT_TRUE(b.done(1, 0));
  EXPECT_FALSE(b.done(0, 0)) << "the first answer counts";
  EXPECT_FALSE(b.complete());
  EXPECT_TRUE(b.done(0, 4));
  EXPECT_TRUE(b.complete());
  EXPECT_THAT(firsts(b.done_by(1)), ElementsAre(0u, 2u));
}

TEST(work_unit_book, ignores_answers_for_units_that_the_worker_was_not_given) {
  work_unit_book b(0, 4, 2, 2);
  b.next(1);
  EXPECT_FALSE(b.done(0, 2)) << "the unit of another worker";
  EXPECT_FALSE(b.done(0, 1)) << "no unit begins at this packet";
  EXPECT_FALSE(b.done(7, 0));
}

TEST(work_unit_book, deals_open_and_finished_units_of_a_lost_worker_again) {
  work_unit_book b(0, 4, 2, 2);
  b.next(1);
  EXPECT_TRUE(b.done(0, 0));
  b.lost(0);
  EXPECT_FALSE(b.has_done(1));
  EXPECT_THAT(brief(b.next(1)), ElementsAre(Pair(0, 0)));
  b.finish();
  b.lost(0);
  EXPECT_TRUE(b.complete()) << "the step is over";
}

TEST(work_unit_dealer, deals_a_step_when_the_previous_one_is_done) {
  work_unit_dealer d(2, 1, 2);
  EXPECT_FALSE(d.dealt());
  EXPECT_TRUE(d.complete());
  EXPECT_EQ(d.next_step(8), 8u) << "the first step";
  EXPECT_THAT(d.deal(), IsEmpty());
  d.open(8);
  EXPECT_EQ(d.next_step(8), std::nullopt);
  EXPECT_EQ(d.deal().size(), 2u);
  d.done(0, 8, 0);
  d.done(1, 7, 1);
  EXPECT_EQ(d.next_step(8), std::nullopt) << "an answer of another step";
  d.done(1, 8, 1);
  EXPECT_EQ(d.next_step(8), 9u);
}

TEST(work_unit_dealer, deals_nothing_when_the_size_is_0) {
  work_unit_dealer d(2, 0, 2);
  EXPECT_FALSE(d.deals());
  EXPECT_THAT(d.lost(0, 3), IsEmpty());
  EXPECT_FALSE(d.lost_one());
  EXPECT_FALSE(d.has_done(0, 0));
  EXPECT_FALSE(d.over(5));
  EXPECT_TRUE(d.complete());
}

TEST(work_unit_dealer, a_step_ends_when_weights_of_the_next_version_exist) {
  work_unit_dealer d(2, 1, 2);
  d.open(8);
  d.deal();
  EXPECT_FALSE(d.over(8)) << "the weights that this step uses";
  EXPECT_FALSE(d.complete());
  EXPECT_FALSE(d.over(9)) << "no worker was lost, so no loss is missing";
  EXPECT_TRUE(d.complete());
}

TEST(work_unit_dealer, records_the_step_in_which_a_worker_was_lost) {
  work_unit_dealer d(2, 1, 2);
  d.open(8);
  d.deal();
  d.done(0, 8, 0);
  EXPECT_TRUE(d.has_done(8, 0));
  EXPECT_THAT(d.lost(0, 8), IsEmpty());
  EXPECT_TRUE(d.lost_one());
  EXPECT_FALSE(d.has_done(8, 0)) << "its sums may be lost";
  EXPECT_TRUE(d.has_done(7, 1)) << "earlier steps are over";
  EXPECT_FALSE(d.has_done(9, 0));
  EXPECT_TRUE(d.over(9));
  EXPECT_TRUE(d.has_done(8, 1));
  d.open(9);
  EXPECT_FALSE(d.lost_one()) << "the worker was lost in the previous step";
}

TEST(work_unit_dealer, a_lost_worker_repeats_its_finished_units_of_the_previous_step) {
  work_unit_dealer d(2, 1, 2);
  d.open(8);
  d.deal();
  d.done(0, 8, 0);
  d.done(1, 8, 1);
  d.open(9);
  d.deal();
  EXPECT_THAT(d.lost(1, 9), IsEmpty()) << "it joined after that step";
  EXPECT_THAT(firsts(d.lost(1, 8)), ElementsAre(1u));
  EXPECT_THAT(firsts(d.lost(0, 7)), ElementsAre(0u));
}

}  // namespace
}  // namespace troupe
