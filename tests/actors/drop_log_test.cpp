// Log lines about messages that roles have dropped as mistakes.
#include "actors/supervision/drop_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<role_published> shard_with(std::uint64_t malformed, std::uint64_t repeated = 0, std::uint32_t job = 0x10003) {
  role_published r;
  r.job = job;
  r.id = role_id{5};
  r.name = "shard0";
  r.status.dropped[drop_reason::malformed] = malformed;
  r.status.dropped[drop_reason::repeated] = repeated;
  return {r};
}

TEST(drop_log, has_a_line_at_each_power_of_two) {
  drop_log log;
  std::vector<std::uint64_t> counts;
  for (std::uint64_t n = 1; n <= 100; ++n)
    if (!log.lines(shard_with(n)).empty()) counts.push_back(n);
  EXPECT_THAT(counts, ElementsAre(1, 2, 4, 8, 16, 32, 64));
}

TEST(drop_log, names_job_role_count_and_reasons) {
  drop_log log;
  EXPECT_THAT(log.lines(shard_with(1)),
              ElementsAre("job 3: role shard0 has rejected 1 message (1 malformed); a peer runs other code or another plan, or "
                          "does not follow the protocol"));
}

TEST(drop_log, is_silent_about_reasons_of_a_healthy_cluster) {
  drop_log log;
  EXPECT_THAT(log.lines(shard_with(0, 1000)), IsEmpty());
}

TEST(drop_log, begins_again_for_the_roles_of_another_job) {
  drop_log log;
  EXPECT_EQ(log.lines(shard_with(1)).size(), 1u);
  EXPECT_EQ(log.lines(shard_with(1)).size(), 0u);
  EXPECT_EQ(log.lines(shard_with(1, 0, 0x10004)).size(), 1u);
}

}  // namespace
}  // namespace troupe
