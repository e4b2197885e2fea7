// Stragglers among roles whose times are drawn: the planted one is named, and no other.
#include "runtime/cluster/supervision/straggler_watch.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

// A synchronous job: each step takes as long as its slowest worker. The watch looks every 250 ms.
class company {
 public:
  static constexpr std::size_t workers = 8;
  // Returns the seconds that the tasks of a role take in a step.
  std::function<double(const std::string& role, std::uint64_t step)> time = [this](const std::string& role, std::uint64_t) {
    return usual(role) * std::exp(noise_(random_));
  };
  explicit company(double noise = 0.1, std::uint64_t seed = 1) : random_(seed), noise_(0, noise) {
    for (std::size_t w = 0; w < workers; ++w) {
      const auto name = "worker" + std::to_string(w);
      for (const char* part : {"", "/loader", "/conv1+relu1", "/ip1", "/loss"})
        all_.push_back({"n" + std::to_string(w), name + part});
      all_.push_back({"n" + std::to_string(w), "shard" + std::to_string(w)});
    }
    all_.push_back({"n0", "coordinator"});
  }
  static double usual(const std::string& role) {
    const auto of = peers_of(role);
    return of == "conv1+relu1" ? 0.060
           : of == "ip1"       ? 0.020
           : of == "shard"     ? 0.008
           : of == "loader"    ? 0.004
           : of == "loss"      ? 5e-5
                               : 0.001;
  }
  double noisy(const std::string& role) { return usual(role) * std::exp(noise_(random_)); }
  // Makes steps; returns the names of stragglers with the step at which they were named.
  std::vector<std::pair<std::string, std::uint64_t>> run(std::uint64_t steps) {
    std::vector<std::pair<std::string, std::uint64_t>> named;
    for (std::uint64_t i = 0; i < steps; ++i) {
      std::map<std::string, double> of_worker;
      for (auto& r : all_) {
        const double t = time(r.role, step_);
        r.busy += t;
        of_worker[r.node] += t;
      }
      double longest = 0;
      for (const auto& [w, t] : of_worker) longest = std::max(longest, t);
      now_ += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(longest));
      ++step_;
      for (auto& r : all_) r.step = step_;
      if (now_ - looked_ < 250ms) continue;
      looked_ = now_;
      for (const auto& s : watch.look(all_, now_)) named.emplace_back(s.role, step_);
    }
    return named;
  }
  std::uint64_t step() const { return step_; }
  straggler_watch watch;

 private:
  std::vector<role_load> all_;
  std::mt19937_64 random_;
  std::normal_distribution<double> noise_;
  straggler_watch::instant now_{}, looked_{};
  std::uint64_t step_ = 0;
};

TEST(straggler_watch, names_the_role_that_is_slow_within_20_steps) {
  for (const std::string slow : {"worker3/conv1+relu1", "worker0/loader", "shard5", "worker7/loss", "worker2"}) {
    company c;
    const auto usual = c.time;
    EXPECT_THAT(c.run(100), IsEmpty());
    c.time = [&](const std::string& role, std::uint64_t step) { return usual(role, step) + (role == slow ? 0.2 : 0); };
    const auto begun = c.step();
    const auto named = c.run(60);
    ASSERT_EQ(named.size(), 1u) << slow;
    EXPECT_EQ(named[0].first, slow);
    EXPECT_LE(named[0].second - begun, 20u);
    ASSERT_TRUE(c.watch.slow().contains(slow));
    EXPECT_NEAR(c.watch.slow().at(slow).costs(), 0.2, 0.02);
    c.time = usual;
    EXPECT_THAT(c.run(60), IsEmpty());
    EXPECT_THAT(c.watch.slow(), IsEmpty()) << "it is as fast as its peers again";
  }
}

TEST(straggler_watch, names_the_worker_when_all_its_roles_are_slow) {
  company c;
  const auto usual = c.time;
  c.time = [&](const std::string& role, std::uint64_t step) { return usual(role, step) * (role.starts_with("worker4") ? 3 : 1); };
  const auto named = c.run(60);
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].first, "worker4");
  company even;
  even.time = [&](const std::string& role, std::uint64_t) {
    const bool layer = role.find('/') != std::string::npos;
    return even.noisy(role) + (layer && role.starts_with("worker4") ? 0.05 : 0);
  };
  const auto whole = even.run(60);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].first, "worker4");
  EXPECT_NEAR(even.watch.slow().at("worker4").costs(), 0.2, 0.02);
}

TEST(straggler_watch, names_no_role_in_10000_steps_with_noise) {
  for (const double noise : {0.02, 0.1, 0.3}) {
    company c(noise, 7);
    EXPECT_THAT(c.run(10'000), IsEmpty()) << noise;
  }
}

TEST(straggler_watch, ignores_a_single_slow_step) {
  company c;
  c.time = [&](const std::string& role, std::uint64_t step) {
    return c.noisy(role) + (role == "worker3/ip1" && step % 50 == 0 ? 0.5 : 0);
  };
  EXPECT_THAT(c.run(500), IsEmpty());
}

TEST(straggler_watch, begins_anew_when_roles_were_restarted) {
  straggler_watch w;
  straggler_watch::instant now{};
  const auto loads = [](std::uint64_t step, double busy, double slow) {
    return std::vector<role_load>{
        {"n1", "worker0/ip1", step, busy}, {"n2", "worker1/ip1", step, busy}, {"n3", "worker2/ip1", step, slow}};
  };
  EXPECT_THAT(w.look(loads(100, 10, 10), now), IsEmpty());
  EXPECT_THAT(w.look(loads(0, 0, 0), now += 1s), IsEmpty());
  EXPECT_THAT(w.look(loads(10, 1, 3), now += 1s), IsEmpty());
  const auto named = w.look(loads(20, 2, 6), now += 1s);
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].text(), "worker2/ip1 at n3 takes 300.0 ms for a step, its 2 peers 100.0 ms: it costs 200.0 ms");
}

TEST(straggler_watch, says_nothing_of_roles_without_two_peers) {
  straggler_watch w;
  straggler_watch::instant now{};
  for (std::uint64_t i = 0; i < 10; ++i) {
    const auto t = static_cast<double>(i);
    EXPECT_THAT(w.look({{"n1", "shard0", 10 * i, t}, {"n2", "shard1", 10 * i, 5 * t}}, now += 1s), IsEmpty());
  }
}

TEST(peers_of, are_roles_of_a_layer_or_a_kind) {
  EXPECT_EQ(peers_of("worker3/conv1+relu1"), "conv1+relu1");
  EXPECT_EQ(peers_of("worker12"), "worker");
  EXPECT_EQ(peers_of("shard2"), "shard");
  EXPECT_EQ(peers_of("coordinator"), "coordinator");
  EXPECT_EQ(peers_of("tester/loader"), "tester/loader");
}

TEST(straggler_watch, compares_each_role_with_the_upper_median_of_the_others) {
  std::mt19937_64 g(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> times(3 + g() % 6);
    for (auto& t : times) t = 1.0 + static_cast<double>(g() % 4);  // many are equal
    straggler_watch watch({.steps = 1, .times = 1.4, .share = 0});
    for (std::uint64_t step = 0; step < 4; ++step) {
      std::vector<role_load> all;
      for (std::size_t i = 0; i < times.size(); ++i)
        all.push_back({"n1", "shard" + std::to_string(i), step, static_cast<double>(step) * times[i]});
      watch.look(all, straggler_watch::instant{} + std::chrono::seconds(step));
    }
    std::map<std::string, double> expected;
    for (std::size_t i = 0; i < times.size(); ++i) {
      auto others = times;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      std::sort(others.begin(), others.end());
      const auto usual = others[others.size() / 2];
      if (times[i] > 1.4 * usual) expected["shard" + std::to_string(i)] = usual;
    }
    std::map<std::string, double> got;
    for (const auto& [role, one] : watch.slow()) got[role] = one.usual;
    EXPECT_EQ(got, expected) << round;
  }
}

}  // namespace
}  // namespace troupe
