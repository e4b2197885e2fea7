// Who counts as hung, by the time that passes, without actors.
#include "actors/control/liveness.hpp"

#include <gtest/gtest.h>

namespace troupe::control {
namespace {

using namespace std::chrono_literals;

class watched_liveness : public testing::Test {
 protected:
  void ask_all() {
    for (const auto who : {watched::repl, watched::exchange, watched::keeper}) EXPECT_TRUE(l_.ask(who, now_));
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
    for (const auto who : {watched::repl, watched::exchange, watched::keeper}) l_.answered(who, now_);
  }
}

TEST_F(watched_liveness, one_question_at_a_time_and_one_a_second) {
  EXPECT_TRUE(l_.ask(watched::repl, now_));
  now_ += 10s;
  EXPECT_FALSE(l_.ask(watched::repl, now_)) << "it waits for an answer";
  l_.answered(watched::repl, now_);
  EXPECT_TRUE(l_.ask(watched::repl, now_));
  l_.answered(watched::repl, now_);
  EXPECT_FALSE(l_.ask(watched::repl, now_)) << "a moment ago";
}

TEST_F(watched_liveness, a_repl_that_does_not_answer_for_twenty_seconds_is_hung) {
  ask_all();
  l_.answered(watched::exchange, now_);
  l_.answered(watched::keeper, now_);
  now_ += 20s;
  EXPECT_EQ(hung(), "");
  now_ += 1s;
  EXPECT_EQ(hung(), "the actor repl has not answered for 21 s");
  l_.answered(watched::repl, now_);
  EXPECT_EQ(hung(), "") << "late, and alive";
}

TEST_F(watched_liveness, a_keeper_that_works_for_an_hour_is_not_hung) {
  ask_all();
  l_.answered(watched::repl, now_);
  l_.answered(watched::exchange, now_);
  auto ran = 0ns;
  for (int minute = 0; minute < 60; ++minute) {
    now_ += 60s;
    l_.ran(watched::keeper, ran += 1us, now_);
    EXPECT_EQ(hung(), "") << minute;
  }
  for (int minute = 0; minute < 10; ++minute) {
    now_ += 60s;
    l_.ran(watched::keeper, ran, now_);
    EXPECT_EQ(hung(), "") << "a disk may be slow";
  }
  now_ += 1s;
  EXPECT_EQ(hung(), "the actor keeper has not answered for 4201 s");
}

TEST_F(watched_liveness, a_clock_that_is_not_known_excuses_nobody) {
  ask_all();
  l_.answered(watched::repl, now_);
  l_.answered(watched::exchange, now_);
  for (int i = 0; i < 601; ++i) l_.ran(watched::keeper, 0ns, now_ += 1s);
  EXPECT_NE(hung(), "");
}

}  // namespace
}  // namespace troupe::control
