// Platoon's scenarios: the examples that each worker takes, checked against the definition of each
// sampler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/data/sampler.hpp"

namespace troupe {
namespace {

using indices = std::vector<std::int64_t>;

const sampler_type& type_of(const std::string& kind) {
  static const auto rows = [] {
    sampler_registry r;
    add_stock_samplers(r);
    return r;
  }();
  return *rows.find(kind);
}

struct company {
  std::int64_t examples = 103, batch = 16;
  std::vector<std::int64_t> counts{5, 5, 3, 3};  // by worker
  std::uint64_t seed = 5;
  options given;
  std::vector<worker_share> shares() const {
    std::vector<worker_share> out;
    std::int64_t first = 0;
    for (auto n : counts) out.push_back({first, n}), first += n;
    return out;
  }
  std::unique_ptr<sampler> make(const std::string& kind, std::uint32_t worker) const {
    const auto& t = type_of(kind);
    sampler_config c{seed, examples, batch, worker, static_cast<std::uint32_t>(counts.size())};
    c.shares.emplace();
    for (std::uint32_t w = 0; w < counts.size(); ++w) c.shares->add(shares()[w], w, worker);
    return t.make(check_options(given, t.specs), c);
  }
};

indices share_of(const company& c, sampler& s, std::uint32_t worker, std::uint64_t step) {
  return s.indices(step, c.shares()[worker].first, c.shares()[worker].count);
}
indices sorted(indices v) {
  std::sort(v.begin(), v.end());
  return v;
}
bool distinct(const indices& v) { return std::set<std::int64_t>(v.begin(), v.end()).size() == v.size(); }

options deal(const char* how) {
  options o;
  o.values.emplace("deal", std::string(how));
  return o;
}

TEST(data_scenarios, shard_gives_every_worker_its_own_part_once_per_epoch) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    for (const char* how : {"blocks", "random"}) {
      company c;
      c.seed = seed;
      c.given = deal(how);
      indices everything;
      for (std::uint32_t w = 0; w < 4; ++w) {
        auto s = c.make("shard", w);
        ASSERT_EQ(s->steps_per_epoch(), 6);
        std::set<std::int64_t> part;
        for (std::uint64_t epoch = 0; epoch < 12; ++epoch) {
          indices once;
          for (std::uint64_t k = 0; k < 6; ++k)
            for (auto i : share_of(c, *s, w, epoch * 6 + k)) once.push_back(i);
          ASSERT_TRUE(distinct(once)) << "seed " << seed << " worker " << w << " epoch " << epoch;
          part.insert(once.begin(), once.end());
        }
        ASSERT_LE(part.size(), 1u + static_cast<std::size_t>(103 * c.counts[w] / 16)) << "the part is fixed for the whole job";
        everything.insert(everything.end(), part.begin(), part.end());
        if (how == std::string("blocks")) {
          ASSERT_LT(*part.rbegin() - *part.begin(), 103 * c.counts[w] / 16 + 1);
        }
      }
      ASSERT_TRUE(distinct(everything)) << "seed " << seed << ": two workers saw one example";
      ASSERT_GE(everything.size(), 100u) << "an example that one epoch drops is taken in another";
    }
}

TEST(data_scenarios, shard_takes_a_new_order_every_epoch) {
  company c{96, 16, {4, 4, 4, 4}, 3, deal("blocks")};
  auto s = c.make("shard", 1);
  indices first, second;
  for (std::uint64_t k = 0; k < 6; ++k) {
    for (auto i : share_of(c, *s, 1, k)) first.push_back(i);
    for (auto i : share_of(c, *s, 1, 6 + k)) second.push_back(i);
  }
  EXPECT_NE(first, second);
  EXPECT_EQ(sorted(first), sorted(second));
  indices want(24);
  std::iota(want.begin(), want.end(), 24);
  EXPECT_EQ(sorted(first), want) << "the second quarter";
}

TEST(data_scenarios, shard_rejects_workers_that_need_more_than_all_examples) {
  company c{40, 16, {16, 16, 16}, 1, deal("blocks")};
  EXPECT_THROW(c.make("shard", 0), option_error) << "three groups, each with a whole batch";
}

TEST(data_scenarios, own_order_gives_every_worker_all_examples_once_per_pass) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    company c{60, 16, {5, 5, 3, 3}, seed, {}};
    std::vector<indices> orders;
    for (std::uint32_t w = 0; w < 4; ++w) {
      auto s = c.make("own_order", w);
      ASSERT_EQ(s->steps_per_epoch(), 12) << "the pass of the largest share";
      const auto pass = static_cast<std::uint64_t>(60 / c.counts[w]);
      indices once, again;
      for (std::uint64_t k = 0; k < pass; ++k) {
        for (auto i : share_of(c, *s, w, k)) once.push_back(i);
        for (auto i : share_of(c, *s, w, pass + k)) again.push_back(i);
      }
      indices want(60);
      std::iota(want.begin(), want.end(), 0);
      ASSERT_EQ(sorted(once), want) << "seed " << seed << " worker " << w;
      ASSERT_EQ(sorted(again), want);
      ASSERT_NE(once, again);
      for (const auto& o : orders) ASSERT_NE(o, once) << "two workers have the same order";
      orders.push_back(once);
    }
  }
}

TEST(data_scenarios, replicate_gives_all_workers_the_same_examples) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    company c{60, 16, {5, 5, 3, 3}, seed, {}};
    auto first = c.make("replicate", 0);
    ASSERT_EQ(first->steps_per_epoch(), 12);
    indices once;
    for (std::uint64_t step = 0; step < 12; ++step) {
      const auto want = share_of(c, *first, 0, step);
      once.insert(once.end(), want.begin(), want.end());
      for (std::uint32_t w = 1; w < 4; ++w) {
        const auto got = share_of(c, *c.make("replicate", w), w, step);
        ASSERT_TRUE(std::equal(got.begin(), got.end(), want.begin())) << "seed " << seed << " worker " << w << " step " << step;
      }
    }
    ASSERT_TRUE(distinct(once)) << "seed " << seed;
    ASSERT_EQ(once.size(), 60u);
  }
}

TEST(data_scenarios, served_and_seeded_have_the_order_of_shuffle) {
  const company c;
  auto shuffle = c.make("shuffle", 0), served = c.make("served", 2), seeded = c.make("seeded", 3);
  company stranger = c;
  stranger.seed = 0;  // a loader that does not know the job's seed
  auto announced = stranger.make("seeded", 1);
  for (std::uint64_t step = 0; step < 40; ++step) {
    const auto want = shuffle->indices(step, 0, 16);
    EXPECT_EQ(served->indices(step, 0, 16), want);
    EXPECT_EQ(seeded->indices(step, 0, 16), want);
    EXPECT_EQ(announced->indices_from(seeded->seed_of(step), step, 0, 16), want);
    EXPECT_NE(announced->indices(step, 0, 16), want);
  }
}

TEST(data_scenarios, served_uses_the_configured_order) {
  for (const char* kind : {"sequential", "shard", "own_order"}) {
    company c, plain;
    c.given.values.emplace("order", std::string(kind));
    for (std::uint32_t w = 0; w < 4; ++w) {
      auto a = c.make("served", w), b = plain.make(kind, w);
      EXPECT_EQ(a->by_worker(), b->by_worker());
      for (std::uint64_t step = 0; step < 20; ++step) EXPECT_EQ(share_of(c, *a, w, step), share_of(plain, *b, w, step)) << kind;
    }
  }
}

TEST(data_scenarios, a_single_worker_has_the_order_of_shuffle) {
  company c;
  c.counts = {16};
  auto want = c.make("shuffle", 0);
  for (const char* kind : {"shard", "own_order", "replicate", "served", "seeded"}) {
    auto got = c.make(kind, 0);
    EXPECT_EQ(got->steps_per_epoch(), want->steps_per_epoch());
    for (std::uint64_t step = 0; step < 20; ++step)
      EXPECT_EQ(got->indices(step, 3, 8), want->indices(step, 3, 8)) << kind << " step " << step;
  }
}

// The only state is the step: a new sampler can be asked for any step, in any order and in any
// pieces.
TEST(data_scenarios, a_resumed_sampler_continues_the_order) {
  const company c;
  for (const auto& kind : {"shuffle", "sequential", "shard", "own_order", "replicate", "served", "seeded"})
    for (std::uint32_t w = 0; w < 4; ++w) {
      auto unbroken = c.make(kind, w);
      for (std::uint64_t step = 0; step < 60; ++step) {
        const auto want = share_of(c, *unbroken, w, step);
        const auto at = c.shares()[w].first;
        auto resumed = c.make(kind, w);
        auto joined = resumed->indices(step, at, 1);
        for (auto i : resumed->indices(step, at + 1, c.counts[w] - 1)) joined.push_back(i);
        ASSERT_EQ(joined, want) << kind << " worker " << w << " step " << step;
      }
      EXPECT_EQ(share_of(c, *unbroken, w, 2), share_of(c, *c.make(kind, w), w, 2)) << "going back";
    }
}

std::unique_ptr<eval_sampler> evaluation(const std::string& kind, std::int64_t size, std::int64_t examples = 0,
                                         std::uint64_t seed = 0) {
  eval_sampler_registry r;
  add_stock_eval_samplers(r);
  options o;
  if (kind == "sample") o.values.emplace("examples", examples), o.values.emplace("seed", static_cast<std::int64_t>(seed));
  return r.find(kind)->make(check_options(o, r.find(kind)->specs), {7, size});
}

TEST(data_scenarios, evaluation_takes_all_in_order_or_a_sample_without_replacement) {
  auto all = evaluation("all", 13);
  EXPECT_EQ(all->examples(), 13);
  EXPECT_THAT(all->indices(4, 10, 3), testing::ElementsAre(10, 11, 12));
  auto some = evaluation("sample", 100, 30);
  EXPECT_EQ(some->examples(), 30);
  std::set<std::int64_t> seen;
  for (std::uint64_t version = 0; version < 50; ++version) {
    const auto got = some->indices(version, 0, 30);
    ASSERT_TRUE(distinct(got));
    ASSERT_TRUE(std::all_of(got.begin(), got.end(), [](auto i) { return i >= 0 && i < 100; }));
    auto pieces = evaluation("sample", 100, 30)->indices(version, 0, 12);
    for (auto i : evaluation("sample", 100, 30)->indices(version, 12, 18)) pieces.push_back(i);
    ASSERT_EQ(pieces, got) << "the sample depends on the split into parts";
    seen.insert(got.begin(), got.end());
  }
  EXPECT_EQ(seen.size(), 100u) << "every evaluation has another sample";
  EXPECT_NE(evaluation("sample", 100, 30, 8)->indices(0, 0, 30), some->indices(0, 0, 30));
  EXPECT_THROW(evaluation("sample", 100, 101), option_error);
}

}  // namespace
}  // namespace troupe
