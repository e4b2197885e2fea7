// Which actor counts as hung, as a function of time, without actors.
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
  std::string hung() { return l_.look(now_).value_or(""); }
  // Time passes in which the daemon looks ten times a second.
  void pass(std::chrono::milliseconds time) {
    for (; time > 0ms; time -= 100ms) l_.look(now_ += 100ms);
  }
  liveness l_;
  liveness::instant now_ = liveness::instant{} + 1000s;
};

TEST_F(watched_liveness, an_actor_that_answers_is_not_hung) {
  for (int i = 0; i < 1000; ++i) {
    ask_all();
    EXPECT_EQ(hung(), "");
    pass(2s);
    for (const auto who : {watched_actor::repl, watched_actor::exchange, watched_actor::job_executor}) l_.answered(who);
  }
}

TEST_F(watched_liveness, an_actor_is_asked_at_most_once_per_second_and_after_its_answer) {
  EXPECT_TRUE(l_.ask(watched_actor::repl, now_));
  now_ += 10s;
  EXPECT_FALSE(l_.ask(watched_actor::repl, now_)) << "the last question is not answered";
  l_.answered(watched_actor::repl);
  EXPECT_TRUE(l_.ask(watched_actor::repl, now_));
  l_.answered(watched_actor::repl);
  EXPECT_FALSE(l_.ask(watched_actor::repl, now_)) << "the last question was less than a second ago";
}

TEST_F(watched_liveness, a_repl_that_does_not_answer_for_twenty_seconds_is_hung) {
  ask_all();
  l_.answered(watched_actor::exchange);
  l_.answered(watched_actor::job_executor);
  pass(20s);
  EXPECT_EQ(hung(), "");
  pass(1s);
  EXPECT_EQ(hung(), "the actor repl has not answered for 21 s");
  l_.answered(watched_actor::repl);
  EXPECT_EQ(hung(), "") << "a late answer ends the hang";
}

TEST_F(watched_liveness, a_job_executor_that_uses_cpu_time_for_an_hour_is_not_hung) {
  ask_all();
  l_.answered(watched_actor::repl);
  l_.answered(watched_actor::exchange);
  auto ran = 0ns;
  for (int minute = 0; minute < 60; ++minute) {
    pass(60s);
    l_.ran(watched_actor::job_executor, ran += 1us);
    EXPECT_EQ(hung(), "") << minute;
  }
  for (int minute = 0; minute < 10; ++minute) {
    pass(60s);
    l_.ran(watched_actor::job_executor, ran);
    EXPECT_EQ(hung(), "") << "without CPU time the limit is 10 min, for slow disks";
  }
  pass(1s);
  EXPECT_EQ(hung(), "the actor executor has not answered for 4201 s");
}

TEST_F(watched_liveness, an_unknown_cpu_time_does_not_count_as_progress) {
  ask_all();
  l_.answered(watched_actor::repl);
  l_.answered(watched_actor::exchange);
  for (int i = 0; i < 601; ++i) {
    l_.ran(watched_actor::job_executor, 0ns);
    pass(1s);
  }
  EXPECT_NE(hung(), "");
}

TEST_F(watched_liveness, time_in_which_the_daemon_itself_did_not_run_does_not_count) {
  pass(1s);
  ask_all();
  for (int i = 0; i < 30; ++i) {
    now_ += 5s;  // 64 daemons on two cores: each of them runs now and then
    EXPECT_EQ(hung(), "") << i;
  }
  pass(20s);
  EXPECT_NE(hung(), "") << "an actor that does not answer while the daemon runs is hung";
}

TEST(own_watchdog, expires_after_a_minute_without_feeding_that_it_has_observed) {
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
  EXPECT_EQ(looks(61, 1s), 0) << "the minute starts at the first look after feeding";
  d.fed();
  EXPECT_EQ(looks(1, 1s), 0);
  EXPECT_EQ(looks(1, 1h), 0) << "the process was stopped";
  EXPECT_EQ(looks(58, 1s), 0);
  EXPECT_EQ(looks(5, 1s), 1);
}

}  // namespace
}  // namespace troupe::control
