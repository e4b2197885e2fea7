// Lists of happenings shrink to what a predicate needs, within the number of runs that is allowed.
#include "runtime/sim/shrink.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/happenings.hpp"

namespace troupe::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// `count` happenings, one every 1.234567891 s; the number of each is its factor.
std::vector<happening> one_of_each(int count) {
  std::vector<happening> list(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    auto& h = list[static_cast<std::size_t>(i)];
    h.at = duration(1'234'567'891) * i;
    h.nodes = {static_cast<std::uint32_t>(i)};
    h.length = seconds(7);
  }
  return list;
}

bool any_hits(const std::vector<happening>& list, std::uint32_t node) {
  return std::any_of(list.begin(), list.end(),
                     [&](const happening& h) { return std::count(h.nodes.begin(), h.nodes.end(), node) > 0; });
}

struct counting_test {
  fails_with test;
  std::size_t runs = 0;
  bool operator()(const std::vector<happening>& list) {
    ++runs;
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.at < b.at; }));
    return test(list);
  }
};

std::vector<happening> shrunk(const std::vector<happening>& list, counting_test& c, std::size_t most = 10'000) {
  return shrink(
      list, [&](const auto& some) { return c(some); }, most);
}

TEST(shrink, finds_every_pair_of_forty) {
  std::size_t most = 0;
  for (std::uint32_t a = 0; a < 40; ++a)
    for (std::uint32_t b = a + 1; b < 40; ++b) {
      counting_test c{[&](const auto& list) { return any_hits(list, a) && any_hits(list, b); }};
      const auto left = shrunk(one_of_each(40), c);
      ASSERT_EQ(left.size(), 2u) << a << " " << b;
      ASSERT_TRUE(any_hits(left, a) && any_hits(left, b));
      most = std::max(most, c.runs);
    }
  EXPECT_LT(most, 120u) << "removal by halves, not one by one";
}

TEST(shrink, finds_three_of_a_hundred_and_one_of_a_thousand) {
  counting_test three{[](const auto& list) { return any_hits(list, 3) && any_hits(list, 50) && any_hits(list, 99); }};
  EXPECT_EQ(shrunk(one_of_each(100), three).size(), 3u);
  counting_test one{[](const auto& list) { return any_hits(list, 777); }};
  EXPECT_EQ(shrunk(one_of_each(1000), one).size(), 1u);
  EXPECT_LT(one.runs, 80u);
  counting_test none{[](const auto&) { return true; }};
  EXPECT_TRUE(shrunk(one_of_each(1000), none).empty()) << "the failure needs no fault";
  EXPECT_EQ(none.runs, 2u);
}

TEST(shrink, every_happening_of_the_result_is_needed) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    random r(seed);
    const auto wanted = [&] {
      std::vector<std::uint32_t> list;
      for (std::uint32_t n = 0; n < 20; ++n)
        if (r.below(5) == 0) list.push_back(n);
      return list;
    }();
    // Either all the wanted nodes are hit, or two nodes at once.
    const auto fails = [&](const std::vector<happening>& list) {
      return std::all_of(wanted.begin(), wanted.end(), [&](auto n) { return any_hits(list, n); }) ||
             std::any_of(list.begin(), list.end(), [](const happening& h) { return h.nodes.size() > 3; });
    };
    const auto list = random_happenings(seed, 20);
    const auto left = shrink(list, fails, 100'000);
    if (!fails(list)) {
      EXPECT_EQ(left, list);
      continue;
    }
    ASSERT_TRUE(fails(left)) << "seed " << seed;
    for (std::size_t i = 0; i < left.size(); ++i) {
      auto rest = left;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_FALSE(fails(rest)) << "seed " << seed;
    }
  }
}

TEST(shrink, makes_what_is_left_simpler) {
  happening h;
  h.kind = fault_kind::cut;
  h.at = duration(12'345'678'901);
  h.nodes = {1, 4, 6, 7};
  h.to = {0, 2, 3};
  h.both_ways = true;
  h.length = duration(8'765'432'109);
  counting_test c{[](const auto& list) { return any_hits(list, 6) && list.front().length > seconds(3); }};
  const auto left = shrunk({h}, c);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].nodes, std::vector<std::uint32_t>{6});
  EXPECT_EQ(left[0].to.size(), 1u) << "never empty, which would mean all others";
  EXPECT_FALSE(left[0].both_ways);
  EXPECT_EQ(left[0].plane, fault_plane::control);
  EXPECT_EQ(left[0].length, milliseconds(4000));
  EXPECT_EQ(left[0].at, seconds(12));
  h.kind = fault_kind::slow;
  h.factor = 6.73;
  counting_test slow{
      [](const auto& list) { return !list.empty() && list.front().factor > 2 && list.front().at > milliseconds(12'300); }};
  const auto rounded = shrunk({h}, slow);
  EXPECT_EQ(rounded[0].factor, 6);
  EXPECT_EQ(rounded[0].at, milliseconds(12'340));
}

TEST(shrink, makes_no_more_runs_than_allowed) {
  for (const std::size_t most : {0, 1, 2, 5, 17}) {
    counting_test c{[](const auto& list) { return any_hits(list, 5) && any_hits(list, 30); }};
    const auto left = shrunk(one_of_each(40), c, most);
    EXPECT_LE(c.runs, most);
    EXPECT_TRUE(any_hits(left, 5) && any_hits(left, 30));
  }
}

TEST(shrink, ends_with_a_predicate_that_is_not_deterministic) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    random r(seed);
    counting_test c{[&](const auto&) { return r.below(3) > 0; }};
    shrunk(random_happenings(seed, 20), c, 1'000'000);
    EXPECT_LT(c.runs, 5'000u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace troupe::sim
