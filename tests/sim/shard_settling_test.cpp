// A shard has flushed when every worker has sent `flushed`; other messages do not count.
#include <gmock/gmock.h>

#include "tests/sim/lone_role.hpp"

namespace troupe::testing {
namespace {

using ::testing::IsEmpty;

class flushing : public ::testing::Test {
 protected:
  flushing() { shard.say({}, start{}); }
  // Returns the rounds that the shard reports to the coordinator. No step has been trained, so the
  // boundary is step 0.
  std::vector<std::uint64_t> word(role_id who, std::uint64_t round, ready::what_of what = ready::what_of::flushed) {
    std::vector<std::uint64_t> rounds;
    for (const auto& [h, r] : only<ready>(shard.say(from(who), ready{what, round}))) {
      EXPECT_EQ(r.what, ready::what_of::flushed);
      EXPECT_EQ(h.dst, role_id{0});
      rounds.push_back(r.round);
    }
    return rounds;
  }
  std::shared_ptr<prepared_job> j = prepare_mode({.workers = 2});
  lone_role shard{j, j->plan.shards[0]};
  role_id one = j->plan.workers[0], two = j->plan.workers[1];
};

TEST_F(flushing, waits_for_every_worker_once) {
  EXPECT_THAT(word(one, 1), IsEmpty());
  EXPECT_THAT(word(one, 1), IsEmpty()) << "the same worker again";
  EXPECT_THAT(word(two, 1), ::testing::ElementsAre(1u));
  EXPECT_THAT(word(two, 1), IsEmpty()) << "this round is over";
}

TEST_F(flushing, counts_only_flushed_messages_of_workers) {
  word(one, 1);
  for (auto other : {ready::what_of::adopted, ready::what_of::work_unit})
    EXPECT_THAT(word(two, 1, other), IsEmpty()) << "the message is not `flushed`";
  EXPECT_THAT(word(j->plan.loaders[1], 1), IsEmpty());
  EXPECT_THAT(word(j->plan.stages[1][0], 1), IsEmpty());
  EXPECT_THAT(word(role_id{999}, 1), IsEmpty());
  EXPECT_THAT(word(two, 1), ::testing::ElementsAre(1u));
}

TEST_F(flushing, starts_again_with_a_later_round) {
  word(one, 1);
  EXPECT_THAT(word(two, 2), IsEmpty()) << "messages of the former round do not count";
  EXPECT_THAT(word(one, 1), IsEmpty()) << "the message is of a former round";
  EXPECT_THAT(word(one, 2), ::testing::ElementsAre(2u));
}

}  // namespace
}  // namespace troupe::testing
