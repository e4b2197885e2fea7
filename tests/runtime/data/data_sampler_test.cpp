#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/data/random.hpp"
#include "runtime/data/sampler.hpp"

namespace troupe {
namespace {

using indices = std::vector<std::int64_t>;

std::unique_ptr<sampler> make(const std::string& kind, std::int64_t examples, std::int64_t batch, std::uint64_t seed = 1,
                              std::uint32_t worker = 0, std::uint32_t workers = 1) {
  sampler_registry r;
  add_stock_samplers(r);
  const auto* t = r.find(kind);
  return t->make(check_options({}, t->specs), {seed, examples, batch, worker, workers});
}

indices epoch_order(sampler& s, std::uint64_t epoch, std::int64_t batch) {
  indices all;
  const auto steps = static_cast<std::uint64_t>(s.steps_per_epoch());
  for (std::uint64_t i = 0; i < steps; ++i) {
    const auto part = s.indices(epoch * steps + i, 0, batch);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(data_random, matches_the_published_outputs_of_splitmix64) {
  // Outputs of the reference program splitmix64.c for state 1234567.
  const std::array<std::uint64_t, 5> published = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                                  4593380528125082431u, 16408922859458223821u};
  for (std::size_t i = 0; i < published.size(); ++i) EXPECT_EQ(hash_at(1234567, i), published[i]);
}

TEST(data_random, draw_below_is_uniform) {
  counter_rng rng(7);
  std::array<int, 6> seen{};
  for (int i = 0; i < 60000; ++i) ++seen[rng.draw_below(6)];
  double chi2 = 0;
  for (int n : seen) chi2 += (n - 10000.0) * (n - 10000.0) / 10000.0;
  EXPECT_LT(chi2, 20.5);  // 5 degrees of freedom, p = 0.001
}

TEST(data_sampler, registry_has_the_stock_kinds_and_accepts_replacements) {
  sampler_registry r;
  add_stock_samplers(r);
  EXPECT_THAT(r.names(),
              testing::ElementsAre("lanes", "own_order", "replicate", "seeded", "sequential", "served", "shard", "shuffle"));
  EXPECT_EQ(r.find("nonsense"), nullptr);
  r.add({"shuffle", "mine", {}, {}});
  EXPECT_EQ(r.find("shuffle")->doc, "mine");
  EXPECT_EQ(r.names().size(), 8u);
}

TEST(data_sampler, shuffle_order_is_fixed) {
  // A change of these numbers changes every trained weight: it is a new format, not a fix.
  auto s = make("shuffle", 10, 5, 1);
  EXPECT_THAT(epoch_order(*s, 0, 5), testing::ElementsAre(2, 1, 5, 4, 9, 6, 8, 3, 7, 0));
  EXPECT_THAT(epoch_order(*s, 1, 5), testing::ElementsAre(0, 3, 4, 5, 2, 1, 7, 6, 9, 8));
}

TEST(data_sampler, shuffle_epoch_is_a_permutation_and_epochs_and_seeds_differ) {
  auto s = make("shuffle", 1000, 10, 3);
  auto first = epoch_order(*s, 0, 10), second = epoch_order(*s, 1, 10);
  EXPECT_NE(first, second);
  auto other = make("shuffle", 1000, 10, 4);
  EXPECT_NE(epoch_order(*other, 0, 10), first);
  indices want(1000);
  std::iota(want.begin(), want.end(), 0);
  std::sort(first.begin(), first.end());
  EXPECT_EQ(first, want);
  EXPECT_NE(second, want);
}

TEST(data_sampler, every_position_is_equally_likely_to_hold_every_example) {
  std::array<std::array<int, 5>, 5> seen{};
  auto s = make("shuffle", 5, 5, 9);
  for (std::uint64_t e = 0; e < 20000; ++e) {
    const auto order = epoch_order(*s, e, 5);
    for (std::size_t i = 0; i < 5; ++i) ++seen[i][static_cast<std::size_t>(order[i])];
  }
  for (const auto& row : seen)
    for (int n : row) EXPECT_NEAR(n, 4000, 250);
}

TEST(data_sampler, order_is_independent_of_workers_and_batch_splitting) {
  for (const char* kind : {"shuffle", "sequential"}) {
    auto whole = make(kind, 103, 16, 5);
    for (std::uint32_t workers : {2u, 4u, 16u}) {
      for (std::uint64_t step = 0; step < 20; ++step) {
        indices joined;
        const auto part = static_cast<std::int64_t>(16 / workers);
        for (std::uint32_t w = 0; w < workers; ++w) {
          auto mine = make(kind, 103, 16, 5, w, workers);
          const auto got = mine->indices(step, w * part, part);
          joined.insert(joined.end(), got.begin(), got.end());
        }
        EXPECT_EQ(joined, whole->indices(step, 0, 16)) << kind << " " << workers << " workers, step " << step;
      }
    }
  }
}

TEST(data_sampler, a_resumed_sampler_continues_the_order) {
  auto first = make("shuffle", 100, 8, 2);
  for (std::uint64_t step = 0; step < 30; ++step) first->indices(step, 0, 8);
  auto resumed = make("shuffle", 100, 8, 2);
  EXPECT_EQ(resumed->indices(30, 0, 8), first->indices(30, 0, 8));
  EXPECT_EQ(resumed->indices(3, 0, 8), first->indices(3, 0, 8)) << "going back to an earlier epoch";
}

TEST(data_sampler, last_partial_batch_is_dropped) {
  for (const char* kind : {"shuffle", "sequential"}) {
    auto s = make(kind, 10, 4);
    EXPECT_EQ(s->steps_per_epoch(), 2);
    EXPECT_EQ(epoch_order(*s, 0, 4).size(), 8u);
  }
  auto s = make("sequential", 10, 4);
  EXPECT_THAT(s->indices(1, 1, 2), testing::ElementsAre(5, 6));
  EXPECT_THAT(s->indices(2, 0, 4), testing::ElementsAre(0, 1, 2, 3));
}

TEST(data_sampler, rejects_a_batch_larger_than_the_training_set) {
  for (const char* kind : {"shuffle", "sequential"}) {
    try {
      make(kind, 63, 64);
      FAIL();
    } catch (const option_error& e) {
      EXPECT_EQ(e.key, "batch");
      EXPECT_STREQ(e.what(), "batch is 64, but the training set has only 63 examples");
    }
    EXPECT_THROW(make(kind, 63, 0), option_error);
  }
}

}  // namespace
}  // namespace troupe
