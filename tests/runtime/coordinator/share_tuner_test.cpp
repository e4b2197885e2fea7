// Proposals of share_tuner for workers whose packets take known times.
#include "runtime/coordinator/share_tuner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using shares = std::vector<std::uint32_t>;

std::vector<packet_range> ranges_of(const shares& packets) {
  std::vector<packet_range> list;
  std::uint32_t first = 0;
  for (auto n : packets) list.push_back({first, n}), first += n;
  return list;
}

// Workers whose packets take these seconds; every plan is the last proposal.
struct tuned_run {
  shares packets;
  std::vector<double> cost;
  double noise = 0;
  std::mt19937 random{7};
  std::size_t changes = 0;

  void run(std::uint64_t steps) {
    share_tuner t(ranges_of(packets));
    for (std::uint64_t s = 0; s < steps; ++s) {
      for (std::uint32_t w = 0; w < packets.size(); ++w) {
        const auto factor = 1 + noise * std::uniform_real_distribution<>(-1, 1)(random);
        EXPECT_TRUE(t.take(w, s, packets[w] * cost[w] * factor));
      }
      if (const auto p = t.proposal()) {
        packets = *p;
        ++changes;
        return run(steps - s - 1);
      }
    }
  }
};

TEST(share_tuner, gives_a_worker_that_is_four_times_as_fast_four_times_the_packets) {
  tuned_run r{.packets = {8, 8}, .cost = {0.001, 0.004}};
  r.run(10);
  EXPECT_THAT(r.packets, ElementsAre(13, 3));
  EXPECT_EQ(r.changes, 1u);
}

TEST(share_tuner, is_within_one_packet_of_the_best_shares_after_ten_steps) {
  std::mt19937 random(11);
  for (int n = 0; n < 200; ++n) {
    SCOPED_TRACE(n);
    const auto workers = 2 + random() % 4;
    tuned_run r;
    for (std::uint32_t w = 0; w < workers; ++w) {
      r.packets.push_back(static_cast<std::uint32_t>(4 + random() % 60));
      r.cost.push_back(0.001 * static_cast<double>(1 + random() % 1000));
    }
    r.run(10);
    std::int64_t all = 0;
    for (auto p : r.packets) all += p;
    const auto best = balanced(all, r.cost);
    double present = 0, least = 0;
    for (std::size_t w = 0; w < workers; ++w) {
      present = std::max(present, r.packets[w] * r.cost[w]);
      least = std::max(least, static_cast<double>(best[w]) * r.cost[w]);
    }
    const auto one_packet = *std::max_element(r.cost.begin(), r.cost.end());
    EXPECT_LE(present, least / (1 - share_tuner::least_gain) + one_packet);
  }
}

TEST(share_tuner, leaves_equal_workers_alone_when_their_times_vary) {
  tuned_run r{.packets = {32, 32, 32, 32}, .cost = {1, 1, 1, 1}, .noise = 0.02};
  r.run(500);
  EXPECT_EQ(r.changes, 0u);
}

TEST(share_tuner, ignores_the_first_step_of_a_plan) {
  share_tuner t(ranges_of({8, 8}));
  t.take(0, 0, 100), t.take(1, 0, 1);
  for (std::uint64_t s = 1; s < 20; ++s) {
    t.take(0, s, 1), t.take(1, s, 1);
    EXPECT_FALSE(t.proposal()) << s;
  }
}

TEST(share_tuner, proposes_again_only_other_shares) {
  share_tuner t(ranges_of({8, 8}));
  std::size_t proposals = 0;
  for (std::uint64_t s = 0; s < 50; ++s) {
    t.take(0, s, 1), t.take(1, s, 4);
    proposals += t.proposal() ? 1 : 0;
  }
  EXPECT_EQ(proposals, 1u);
}

TEST(share_tuner, takes_each_step_of_a_worker_once) {
  share_tuner t(ranges_of({8, 8}));
  EXPECT_TRUE(t.take(0, 3, 1));
  EXPECT_FALSE(t.take(0, 3, 1));
  EXPECT_FALSE(t.take(0, 2, 1));
  EXPECT_TRUE(t.take(1, 3, 1));
}

TEST(share_tuner, proposes_nothing_when_the_clock_does_not_move) {
  share_tuner t(ranges_of({8, 8}));
  for (std::uint64_t s = 0; s < 20; ++s) {
    t.take(0, s, 0), t.take(1, s, 0);
    EXPECT_FALSE(t.proposal()) << s;
  }
}

}  // namespace
}  // namespace troupe
