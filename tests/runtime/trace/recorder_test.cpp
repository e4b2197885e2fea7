// The rings of activities, also while they are read.
#include "runtime/trace/recorder.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

namespace troupe {
namespace {

activity numbered(std::uint64_t n, std::uint32_t role = 0) {
  activity a;
  a.at = time_point(static_cast<std::int64_t>(n));
  a.role = role_id{role};
  a.id = a.value = a.step = n;
  return a;
}

TEST(activity_recorder, returns_each_activity_once_in_order) {
  activity_recorder r(1 << 16, 1);
  activity_recorder::position at;
  for (std::uint64_t round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < 10; ++i) r.add(numbered(10 * round + i));
    const auto got = r.read(at);
    ASSERT_EQ(got.all.size(), 10u);
    EXPECT_EQ(got.lost, 0u);
    for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(got.all[i].step, 10 * round + i);
  }
  EXPECT_TRUE(r.read(at).all.empty());
}

TEST(activity_recorder, keeps_the_latest_and_counts_the_lost_when_it_is_full) {
  activity_recorder r(100 * sizeof(activity), 1);
  activity_recorder::position at;
  for (std::uint64_t i = 0; i < 1000; ++i) r.add(numbered(i));
  const auto got = r.read(at);
  ASSERT_FALSE(got.all.empty());
  EXPECT_GE(got.all.size(), 99u);
  EXPECT_EQ(got.all.size() + got.lost, 1000u);
  EXPECT_EQ(got.all.back().step, 999u);
}

TEST(activity_recorder, returns_whole_activities_while_threads_add_them) {
  constexpr std::uint64_t each = 200'000;
  activity_recorder r(4096 * sizeof(activity), 2);
  std::atomic<int> writing{2};
  std::vector<std::thread> writers;
  for (std::uint32_t w = 0; w < 2; ++w)
    writers.emplace_back([&, w] {
      for (std::uint64_t i = 0; i < each; ++i) r.add(numbered(i, w));
      --writing;
    });
  activity_recorder::position at;
  std::map<role_id, std::uint64_t> next;
  std::uint64_t seen = 0, lost = 0;
  for (bool last = false; !last;) {
    last = writing == 0;
    const auto got = r.read(at);
    lost += got.lost;
    for (const auto& a : got.all) {
      ASSERT_EQ(a.id, a.step);
      ASSERT_EQ(a.value, a.step);
      ASSERT_EQ(static_cast<std::uint64_t>(a.at.count()), a.step);
      ASSERT_GE(a.step, next[a.role]) << "in order";
      next[a.role] = a.step + 1;
      ++seen;
    }
  }
  for (auto& w : writers) w.join();
  EXPECT_EQ(seen + lost, 2 * each);
  EXPECT_GT(seen, 0u);
}

TEST(activity_recorder, knows_the_roles_of_the_latest_plans) {
  activity_recorder r(1 << 12, 1);
  for (std::uint32_t job = 1; job <= activity_recorder::plans_named + 2; ++job) r.name(job, {"coordinator"});
  const auto names = r.names();
  ASSERT_EQ(names.size(), activity_recorder::plans_named);
  EXPECT_EQ(names.front().job, 3u);
  EXPECT_LE(names.front().since, names.back().since);
}

TEST(activity_recorder, returns_as_much_as_is_wanted_and_says_that_there_is_more) {
  activity_recorder r(1 << 20, 2);
  for (std::uint64_t i = 0; i < 100; ++i) r.add(numbered(i));
  std::thread([&] {
    for (std::uint64_t i = 0; i < 50; ++i) r.add(numbered(i, 1));
  }).join();
  activity_recorder::position at;
  std::map<role_id, std::uint64_t> next;
  std::size_t reads = 0;
  for (bool more = true; more; ++reads) {
    const auto got = r.read(at, 20);
    EXPECT_LE(got.all.size(), 20u);
    EXPECT_EQ(got.lost, 0u);
    for (const auto& a : got.all) EXPECT_EQ(a.step, next[a.role]++);
    more = got.more;
  }
  EXPECT_EQ(next[role_id{0}], 100u);
  EXPECT_EQ(next[role_id{1}], 50u);
  EXPECT_GE(reads, 10u);
}

TEST(activity_recorder, reads_nothing_when_the_position_is_of_another_record) {
  activity_recorder r(1 << 16, 1);
  r.add(numbered(1));
  activity_recorder::position at{{{0, 1ull << 60}, {7, 3}}};
  EXPECT_TRUE(r.read(at).all.empty());
  EXPECT_EQ(at.read.at(0), 1u);
}

TEST(task_kinds, of_another_process_have_a_number_here) {
  static const char kind[] = "a kind of this test";
  const auto own = task_kinds::number_of(kind);
  EXPECT_EQ(task_kinds::number_of_text("a kind of this test"), own);
  const auto foreign = task_kinds::number_of_text("a kind of another process");
  EXPECT_STREQ(task_kinds::name_of(foreign), "a kind of another process");
  EXPECT_EQ(task_kinds::number_of_text("a kind of another process"), foreign);
  EXPECT_EQ(task_kinds::names().at(own), kind);
}

TEST(task_kinds, have_the_same_number_for_the_same_literal) {
  static const char* const forward = "forward";
  static const char* const other = "some other task";
  const auto number = task_kinds::number_of(forward);
  EXPECT_EQ(task_kinds::number_of(forward), number);
  EXPECT_NE(task_kinds::number_of(other), number);
  EXPECT_STREQ(task_kinds::name_of(number), "forward");
  EXPECT_STREQ(task_kinds::name_of(255), "other");
}

}  // namespace
}  // namespace troupe
