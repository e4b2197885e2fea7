// A value is accessible to its role only while no task has it.
#include "runtime/base/lent.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace troupe {
namespace {

TEST(lent, refuses_access_while_a_task_has_the_value) {
  lent<int> v(std::make_shared<int>(1));
  *v = 2;
  const auto task = v.lend();
  EXPECT_TRUE(v.out());
  EXPECT_TRUE(v) << "it has a value, which is elsewhere";
  EXPECT_THROW(*v = 3, std::logic_error);
  EXPECT_THROW(v.lend(), std::logic_error) << "to a second task";
  *task = 4;
  v.give_back();
  EXPECT_EQ(*v, 4);
  EXPECT_THROW(v.give_back(), std::logic_error) << "it is not lent";
}

TEST(lent, leaves_the_value_to_the_task_when_the_role_ends) {
  std::shared_ptr<int> task;
  {
    lent<int> v(std::make_shared<int>(1));
    task = v.lend();
  }
  EXPECT_EQ(*task, 1);
}

TEST(lent, refuses_access_without_a_value) {
  lent<int> none;
  EXPECT_FALSE(none);
  EXPECT_THROW(*none, std::logic_error);
}

}  // namespace
}  // namespace troupe
