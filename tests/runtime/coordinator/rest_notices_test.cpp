// Workers that rest are told where steps end, and each of them once.
#include "runtime/coordinator/rest_notices.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(rest_notices, tell_a_worker_what_is_new_to_it_once) {
  rest_notices n(2);
  EXPECT_FALSE(n.due(0, 3, 10)) << "it may go on, as it thought";
  const auto first = n.due(0, 10, 10);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->word, 1u);
  EXPECT_EQ(first->until, 10u);
  EXPECT_FALSE(n.due(0, 10, 10));
  EXPECT_TRUE(n.due(1, 10, 10));
  const auto on = n.due(0, 10, 20);
  ASSERT_TRUE(on);
  EXPECT_EQ(on->until, 0u) << "steps go on";
  EXPECT_EQ(on->word, 3u);
  n.forget(1);
  EXPECT_TRUE(n.due(1, 10, 10)) << "restarted, it has forgotten";
  n.forget_all();
  EXPECT_TRUE(n.due(1, 10, 10));
}

}  // namespace
}  // namespace troupe
