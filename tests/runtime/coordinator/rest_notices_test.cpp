// Workers that rest are notified once where steps end.
#include "runtime/coordinator/rest_notices.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(rest_notices, notify_a_worker_of_each_change_once) {
  rest_notices n(2);
  EXPECT_FALSE(n.due(0, 3, 10)) << "more steps follow, as the worker assumes";
  const auto first = n.due(0, 10, 10);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->number, 1u);
  EXPECT_EQ(first->until, 10u);
  EXPECT_FALSE(n.due(0, 10, 10));
  EXPECT_TRUE(n.due(1, 10, 10));
  const auto on = n.due(0, 10, 20);
  ASSERT_TRUE(on);
  EXPECT_EQ(on->until, 0u) << "more steps follow";
  EXPECT_EQ(on->number, 3u);
  n.forget_all();
  EXPECT_TRUE(n.due(1, 10, 10));
}

}  // namespace
}  // namespace troupe
