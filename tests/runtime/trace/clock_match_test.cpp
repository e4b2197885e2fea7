// The alignment of two nodes' clocks, and the usual time of a step.
#include "runtime/trace/clock_match.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/trace/usual_step.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

// Questions over a link with random delays in both directions, to a clock that is off and drifts.
TEST(clock_match, is_within_its_bound_when_delays_and_drift_are_drawn) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 draw(seed);
    const double off = std::uniform_real_distribution<>(-1e6, 1e6)(draw);
    const double rate = 1 + std::uniform_real_distribution<>(-0.5, 0.5)(draw) * clock_match::drift;
    const auto theirs = [&](double t) { return off + rate * t; };
    std::exponential_distribution<> delay(1 / std::uniform_real_distribution<>(20e-6, 5e-3)(draw));
    const auto ns = [](double s) { return time_point(std::llround(s * 1e9)); };
    clock_match m;
    double t = 0;
    for (int i = 0; i < 200; ++i) {
      t += std::uniform_real_distribution<>(0, 2)(draw);
      const double asked = t, answered = asked + delay(draw);
      t = answered + delay(draw);
      m.add(ns(asked), ns(theirs(answered)), ns(t));
      const auto wrong = ns(theirs(t)) + m.shift() - ns(t);
      ASSERT_LE(std::abs(static_cast<double>(wrong.count())), static_cast<double>(m.error_at(ns(t)).count()) + 2e3)
          << "seed " << seed << " question " << i;
    }
  }
}

TEST(clock_match, keeps_the_fastest_answer) {
  clock_match m;
  EXPECT_FALSE(m.known());
  m.add(0ms, 1000ms, 10ms);
  EXPECT_EQ(m.shift(), -995ms);
  m.add(20ms, 1021ms, 22ms);  // a better answer
  EXPECT_EQ(m.shift(), -1000ms);
  EXPECT_EQ(m.error_at(22ms), 1ms);
  m.add(30ms, 1039ms, 50ms);  // a worse one
  EXPECT_EQ(m.shift(), -1000ms);
  EXPECT_GT(m.error_at(10s), 1ms) << "clocks drift";
}

activity of_step(std::uint32_t role, std::uint64_t step, time_point at, std::uint32_t job = 1) {
  activity a;
  a.role = role_id{role};
  a.step = step;
  a.at = at;
  a.job = job;
  return a;
}

TEST(usual_step, is_the_median_of_the_times_between_steps_of_roles) {
  std::vector<activity> all;
  EXPECT_EQ(usual_step(all, 1), std::nullopt);
  for (std::uint64_t s = 1; s <= 9; ++s)
    for (std::uint32_t r = 0; r < 3; ++r) {
      all.push_back(of_step(r, s, 100ms * s + 5ms));
      all.push_back(of_step(r, s, 100ms * s));
      all.push_back(of_step(r, s, 7ms * s, 2));  // of another job
    }
  EXPECT_NEAR(usual_step(all, 1).value(), 0.1, 1e-9);
  all.push_back(of_step(0, 10, 30s));  // a step that took long
  all.push_back(of_step(1, 20, 40s));  // not the next step
  EXPECT_NEAR(usual_step(all, 1).value(), 0.1, 1e-9);
  EXPECT_EQ(usual_step(all, 3), std::nullopt);
}

}  // namespace
}  // namespace troupe
