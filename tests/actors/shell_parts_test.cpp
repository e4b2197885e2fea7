// Tests of the shell's parts without actors: a role's own tasks, and the time slice of a turn.
#include <gtest/gtest.h>

#include "actors/shell/own_tasks.hpp"

namespace troupe {
namespace {

constexpr time_point at(std::int64_t n) { return time_point(n); }

run_effect task(std::uint64_t token) {
  run_effect r;
  r.token = token;
  return r;
}

TEST(shell_parts, tasks_run_in_the_order_of_their_requests) {
  own_tasks tasks;
  EXPECT_FALSE(tasks.can_begin());
  std::uint64_t asked = 0, taken = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 3; ++i) tasks.add(task(asked++));
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(tasks.next().token, taken);
      EXPECT_EQ(tasks.take().token, taken++);
    }
    EXPECT_EQ(tasks.size(), asked - taken);
  }
  while (tasks.can_begin()) EXPECT_EQ(tasks.take().token, taken++);
  EXPECT_EQ(taken, asked);
}

TEST(shell_parts, a_finished_task_is_reported_once) {
  own_tasks tasks;
  EXPECT_FALSE(tasks.take_ran());
  tasks.ran(9);
  EXPECT_TRUE(tasks.has_ran());
  EXPECT_EQ(tasks.take_ran(), 9u);
  EXPECT_FALSE(tasks.has_ran());
  EXPECT_FALSE(tasks.take_ran());
}

TEST(shell_parts, no_task_begins_while_a_stream_runs_one_even_after_forget) {
  own_tasks tasks;
  tasks.add(task(1));
  tasks.add(task(2));
  tasks.take();
  tasks.goes_on_there();
  EXPECT_FALSE(tasks.can_begin());
  tasks.forget();
  tasks.add(task(3));
  EXPECT_FALSE(tasks.can_begin());
  tasks.over_there();
  ASSERT_TRUE(tasks.can_begin());
  EXPECT_EQ(tasks.take().token, 3u);
}

TEST(shell_parts, a_turn_is_over_when_its_tasks_have_used_the_time_slice) {
  const time_point slice = time_slice;
  work_turn t;
  EXPECT_FALSE(t.over());
  t.worked(at(1000), at(1000) + slice / 2);
  EXPECT_FALSE(t.over());
  t.worked(at(1000) + slice / 2, at(1000) + slice);
  EXPECT_TRUE(t.over());
  t.yield();
  EXPECT_TRUE(t.yields());
  t.begin();
  EXPECT_FALSE(t.over() || t.yields());
  t.worked(at(1000) + slice, at(1001) + slice);
  EXPECT_FALSE(t.over());
}

}  // namespace
}  // namespace troupe
