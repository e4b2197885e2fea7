#include "runtime/coordinator/recent_rate.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(recent_rate, is_the_mean_when_steps_complete_in_bursts) {
  recent_rate r;
  double rate = 0;
  for (int i = 0; i < 400; ++i) rate = r.add(64, i % 4 == 3 ? 0.0904 : 0.0008);  // one step's rate: 708 or 80,000
  EXPECT_NEAR(rate, 4 * 64 / (0.0904 + 3 * 0.0008), 100);
}

TEST(recent_rate, forgets_steps_that_are_older_than_the_window) {
  recent_rate r;
  for (int i = 0; i < 1000; ++i) r.add(10, 0.1);  // 100 a second
  double rate = 0;
  for (int i = 0; i < 10; ++i) rate = r.add(10, 0.5);  // 20 a second, for one window
  EXPECT_NEAR(rate, 20, 0.5);
}

TEST(recent_rate, is_the_rate_of_the_last_step_when_it_exceeds_the_window) {
  recent_rate r;
  r.add(64, 0.001);
  EXPECT_DOUBLE_EQ(r.add(64, 2 * recent_rate::window), 64 / (2 * recent_rate::window));
}

TEST(recent_rate, counts_steps_that_complete_at_the_same_time) {
  recent_rate r;
  EXPECT_EQ(r.add(64, 0), 0) << "no time has passed";
  EXPECT_DOUBLE_EQ(r.add(64, 0.5), 256);
}

TEST(recent_rate, keeps_few_entries_when_steps_are_short) {
  recent_rate r;
  for (int i = 0; i < 1'000'000; ++i) r.add(1, 1e-5);
  EXPECT_LE(r.entries(), 102u);
}

}  // namespace
}  // namespace troupe
