// Who counts as hung, by the time that passes, without actors.
#include "actors/supervision/liveness.hpp"
#include "actors/supervision/watchdog.hpp"

#include <gtest/gtest.h>

namespace troupe::control {
namespace {

using namespace std::chrono_literals;

class watched_liveness : public testing::Test {
 protected:
  void ask_all() {
    for (const auto who : {watched_actor::repl, watched_actor::exchange, watched_actor::job_executor})
      EXPECT_TRUE(l_.ask(who, now_));
  }
  std::string hung() const { return l_.hung(now_).value_or(""); }
  liveness l_;
  liveness::instant now_ = liveness::instant{} + 1000s;
};

TEST_F(watched_liveness, nobody_is_hung_who_answers) {
  for (int i = 0; i < 1000; ++i) {
    ask_all();
    EXPECT_EQ(hung(), "");
    now_ += 2s;
    for (const auto who : {watched_actor::repl, watched_actor::exchange, watched_actor::job_executor}) l_.answered(who, now_);
  }
}

TEST_F(watched_liveness, one_question_at_a_time_and_one_a_second) {
  EXPECT_TRUE(l_.ask(watched_actor::repl, now_));
  now_ += 10s;
  EXPECT_FALSE(l_.ask(watched_actor::repl, now_)) << "it waits for an answer";
  l_.answered(watched_actor::repl, now_);
  EXPECT_TRUE(l_.ask(watched_actor::repl, now_));
  l_.answered(watched_actor::repl, now_);
  EXPECT_FALSE(l_.ask(watched_actor::repl, now_)) << "a moment ago";
}

TEST_F(watched_liveness, a_repl_that_does_not_answer_for_twenty_seconds_is_hung) {
  ask_all();
  l_.answered(watched_actor::exchange, now_);
  l_.answered(watched_actor::job_executor, now_);
  now_ += 20s;
  EXPECT_EQ(hung(), "");
  now_ += 1s;
  EXPECT_EQ(hung(), "the actor repl has not answered for 21 s");
  l_.answered(watched_actor::repl, now_);
  EXPECT_EQ(hung(), "") << "late, and alive";
}

TEST_F(watched_liveness, a_keeper_that_works_for_an_hour_is_not_hung) {
  ask_all();
  l_.answered(watched_actor::repl, now_);
  l_.answered(watched_actor::exchange, now_);
  auto ran = 0ns;
  for (int minute = 0; minute < 60; ++minute) {
    now_ += 60s;
    l_.ran(watched_actor::job_executor, ran += 1us, now_);
    EXPECT_EQ(hung(), "") << minute;
  }
  for (int minute = 0; minute < 10; ++minute) {
    now_ += 60s;
    l_.ran(watched_actor::job_executor, ran, now_);
    EXPECT_EQ(hung(), "") << "a disk may be slow";
  }
  now_ += 1s;
  EXPECT_EQ(hung(), "the actor executor has not answered for 4201 s");
}

TEST_F(watched_liveness, a_clock_that_is_not_known_excuses_nobody) {
  ask_all();
  l_.answered(watched_actor::repl, now_);
  l_.answered(watched_actor::exchange, now_);
  for (int i = 0; i < 601; ++i) l_.ran(watched_actor::job_executor, 0ns, now_ += 1s);
  EXPECT_NE(hung(), "");
}

TEST(own_watchdog, bites_when_nobody_has_fed_it_for_a_minute_that_it_has_seen) {
  watchdog d;
  auto now = watchdog::instant{} + 1h;
  const auto looks = [&](int n, std::chrono::milliseconds each) {
    for (int i = 0; i < n; ++i)
      if (d.look(now += each)) return i + 1;
    return 0;
  };
  for (int i = 0; i < 200; ++i) {
    d.fed();
    EXPECT_EQ(looks(1, 1s), 0);
  }
  EXPECT_EQ(looks(59, 1s), 0);
  d.fed();
  EXPECT_EQ(looks(61, 1s), 0) << "from the look at which it was no longer hungry";
  d.fed();
  EXPECT_EQ(looks(1, 1s), 0);
  EXPECT_EQ(looks(1, 1h), 0) << "the process was stopped";
  EXPECT_EQ(looks(58, 1s), 0);
  EXPECT_EQ(looks(5, 1s), 1);
}

}  // namespace
}  // namespace troupe::control
