// Portions are dealt, done and dealt again, within a step and from one step to the next.
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

TEST(work_unit_book, gives_everybody_a_little_ahead_and_the_rest_a_second_time) {
  work_unit_book b(4, 5, 2, 2);
  const auto deals = b.next();
  EXPECT_THAT(brief(deals), ElementsAre(Pair(0, 0), Pair(1, 2), Pair(0, 4)));
  EXPECT_EQ(deals[2].what.count, 1u) << "the last portion has what is left";
  EXPECT_EQ(deals[0].what.step, 4u);
  EXPECT_TRUE(b.done(1, 2));
  EXPECT_THAT(brief(b.next()), ElementsAre(Pair(1, 0))) << "who has nothing takes the oldest that is out";
  EXPECT_TRUE(b.done(1, 0));
  EXPECT_FALSE(b.done(0, 0)) << "the first answer counts";
  EXPECT_FALSE(b.complete());
  EXPECT_TRUE(b.done(0, 4));
  EXPECT_TRUE(b.complete());
  EXPECT_THAT(firsts(b.done_by(1)), ElementsAre(0u, 2u));
}

TEST(work_unit_book, believes_nobody_who_was_given_nothing) {
  work_unit_book b(0, 4, 2, 2);
  b.next(1);
  EXPECT_FALSE(b.done(0, 2)) << "another's";
  EXPECT_FALSE(b.done(0, 1)) << "no portion begins here";
  EXPECT_FALSE(b.done(7, 0));
}

TEST(work_unit_book, deals_again_what_a_lost_worker_had_and_what_it_was_the_first_to_do) {
  work_unit_book b(0, 4, 2, 2);
  b.next(1);
  EXPECT_TRUE(b.done(0, 0));
  b.lost(0);
  EXPECT_FALSE(b.has_done(1));
  EXPECT_THAT(brief(b.next(1)), ElementsAre(Pair(0, 0)));
  b.finish();
  b.lost(0);
  EXPECT_TRUE(b.complete()) << "over is over";
}

TEST(work_unit_dealer, deals_a_step_when_the_one_before_is_done) {
  work_unit_dealer d(2, 1, 2);
  EXPECT_FALSE(d.dealt());
  EXPECT_TRUE(d.complete());
  EXPECT_EQ(d.next_step(8), 8u) << "the first one";
  EXPECT_THAT(d.deal(), IsEmpty());
  d.open(8);
  EXPECT_EQ(d.next_step(8), std::nullopt);
  EXPECT_EQ(d.deal().size(), 2u);
  d.done(0, 8, 0);
  d.done(1, 7, 1);
  EXPECT_EQ(d.next_step(8), std::nullopt) << "a word of another step";
  d.done(1, 8, 1);
  EXPECT_EQ(d.next_step(8), 9u);
}

TEST(work_unit_dealer, of_no_size_deals_nothing) {
  work_unit_dealer d(2, 0, 2);
  EXPECT_FALSE(d.deals());
  EXPECT_THAT(d.lost(0, 3), IsEmpty());
  EXPECT_FALSE(d.lost_one());
  EXPECT_FALSE(d.has_done(0, 0));
  EXPECT_FALSE(d.over(5));
  EXPECT_TRUE(d.complete());
}

TEST(work_unit_dealer, weights_of_the_next_version_end_a_step) {
  work_unit_dealer d(2, 1, 2);
  d.open(8);
  d.deal();
  EXPECT_FALSE(d.over(8)) << "the weights that this step began with";
  EXPECT_FALSE(d.complete());
  EXPECT_FALSE(d.over(9)) << "nobody was lost, so no loss is missing";
  EXPECT_TRUE(d.complete());
}

TEST(work_unit_dealer, remembers_the_step_in_which_a_worker_was_lost) {
  work_unit_dealer d(2, 1, 2);
  d.open(8);
  d.deal();
  d.done(0, 8, 0);
  EXPECT_TRUE(d.has_done(8, 0));
  EXPECT_THAT(d.lost(0, 8), IsEmpty());
  EXPECT_TRUE(d.lost_one());
  EXPECT_FALSE(d.has_done(8, 0)) << "its sums may be lost with it";
  EXPECT_TRUE(d.has_done(7, 1)) << "earlier steps are over";
  EXPECT_FALSE(d.has_done(9, 0));
  EXPECT_TRUE(d.over(9));
  EXPECT_TRUE(d.has_done(8, 1));
  d.open(9);
  EXPECT_FALSE(d.lost_one()) << "that was in the step before";
}

TEST(work_unit_dealer, a_lost_worker_does_again_what_shards_may_still_want_of_the_step_before) {
  work_unit_dealer d(2, 1, 2);
  d.open(8);
  d.deal();
  d.done(0, 8, 0);
  d.done(1, 8, 1);
  d.open(9);
  d.deal();
  EXPECT_THAT(d.lost(1, 9), IsEmpty()) << "it joined behind that step";
  EXPECT_THAT(firsts(d.lost(1, 8)), ElementsAre(1u));
  EXPECT_THAT(firsts(d.lost(0, 7)), ElementsAre(0u));
}

}  // namespace
}  // namespace troupe
