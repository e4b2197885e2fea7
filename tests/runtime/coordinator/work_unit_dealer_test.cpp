// Work units are dealt and done, within a step and from one step to the next.
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
}

TEST(work_unit_book, ignores_answers_for_units_that_the_worker_was_not_given) {
  work_unit_book b(0, 4, 2, 2);
  b.next(1);
  EXPECT_FALSE(b.done(0, 2)) << "the unit of another worker";
  EXPECT_FALSE(b.done(0, 1)) << "no unit begins at this packet";
  EXPECT_FALSE(b.done(7, 0));
}

TEST(work_unit_dealer, deals_a_step_when_the_previous_one_is_done) {
  work_unit_dealer d(2, 1, 2);
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
  d.over(5);
  EXPECT_TRUE(d.complete());
}

TEST(work_unit_dealer, a_step_ends_when_weights_of_the_next_version_exist) {
  work_unit_dealer d(2, 1, 2);
  d.open(8);
  d.deal();
  d.over(8);
  EXPECT_FALSE(d.complete()) << "the weights that this step uses";
  d.over(9);
  EXPECT_TRUE(d.complete());
}

}  // namespace
}  // namespace troupe
