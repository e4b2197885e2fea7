// The random order of examples: a table for small sets, a Feistel network for sets whose table
// would be large.
#include "runtime/data/permutation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/data/sampler.hpp"

namespace troupe {
namespace {

using numbers = std::vector<std::int64_t>;

numbers from_to(std::int64_t begin, std::int64_t end) {
  numbers all(static_cast<std::size_t>(end - begin));
  std::iota(all.begin(), all.end(), begin);
  return all;
}

TEST(data_permutation, a_table_is_fisher_yates) {
  for (const std::int64_t n : {1, 2, 3, 10, 1000}) {
    auto expected = from_to(50, 50 + n);
    counter_rng rng(99);
    for (auto i = expected.size(); i-- > 1;) std::swap(expected[i], expected[rng.draw_below(i + 1)]);
    permutation p(50, 50 + n);
    EXPECT_EQ(p.part(99, 0, n), expected);
    EXPECT_EQ(p.part(99, n / 2, n - n / 2), numbers(expected.begin() + n / 2, expected.end()));
    EXPECT_EQ(p.bytes(), 4 * n);
  }
}

TEST(data_permutation, without_a_table_contains_every_number_once) {
  for (std::int64_t n = 2; n < 600; ++n)
    for (const std::uint64_t key : {0u, 1u, 77u}) {
      permutation p(7, 7 + n, 1);
      auto order = p.part(key, 0, n);
      EXPECT_EQ(p.part(key, n / 3, n - n / 3), numbers(order.begin() + n / 3, order.end())) << "a second call differs";
      std::sort(order.begin(), order.end());
      ASSERT_EQ(order, from_to(7, 7 + n)) << n << " numbers, key " << key;
      EXPECT_EQ(p.bytes(), 0);
    }
}

TEST(data_permutation, without_a_table_positions_are_uniform) {
  constexpr std::int64_t n = 5, draws = 20000;
  std::vector<std::vector<int>> seen(n, std::vector<int>(n));
  permutation p(0, n, 1);
  for (std::uint64_t key = 0; key < draws; ++key) {
    const auto order = p.part(sub_key(9, key), 0, n);
    for (std::size_t i = 0; i < n; ++i) ++seen[i][static_cast<std::size_t>(order[i])];
  }
  for (const auto& row : seen)
    for (int k : row) EXPECT_NEAR(k, static_cast<double>(draws) / n, 250);
}

// Above 2^24 examples no sampler keeps a table, whatever its options.
TEST(data_permutation, samplers_of_many_examples_hold_no_table) {
  sampler_registry r;
  add_stock_samplers(r);
  for (const auto& name : r.names()) {
    if (name == "sequential" || name == "lanes") continue;
    const auto* t = r.find(name);
    options given;
    if (name == "shard") given.values["deal"] = std::string("random");
    const auto of = [&](std::int64_t examples) { return t->make(check_options(given, t->specs), {1, examples, 1000, 1, 2, {}}); };
    const std::int64_t most = permutation::max_in_table;
    EXPECT_GE(of(most)->held_bytes(), 4 * most / 2) << name;
    EXPECT_LE(of(most)->held_bytes(), 6 * most) << name;
    auto s = of(std::int64_t{400'000'000'000});
    EXPECT_EQ(s->held_bytes(), 0) << name;
    std::set<std::int64_t> seen;
    for (std::uint64_t step = 0; step < 200; ++step)
      for (auto i : s->indices(step, 500, 500)) {
        EXPECT_GE(i, 0);
        EXPECT_LT(i, 400'000'000'000);
        seen.insert(i);
      }
    EXPECT_EQ(seen.size(), 200u * 500) << name << ": an example occurs twice";
  }
}

}  // namespace
}  // namespace troupe
