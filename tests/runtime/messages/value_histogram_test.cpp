// Buckets of histograms: TensorFlow's limits, counting, adding, checks of received ones, and
// events.
#include "runtime/messages/value_histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/data/random.hpp"

namespace troupe {
namespace {

constexpr double largest = std::numeric_limits<double>::max();

value_histogram counted(const std::vector<double>& values) {
  value_histogram h;
  for (double v : values) {
    value_histogram one{1, v == 0 ? 1u : 0u, 0, v, v, v, v * v, {{static_cast<std::uint16_t>(bucket_of(v)), 1}}};
    if (!std::isfinite(v)) one = {1, 0, 1, 0, 0, 0, 0, {}};
    add(h, one);
  }
  return h;
}

// The limits of tensorflow/core/lib/histogram/histogram.cc.
TEST(value_histogram, has_the_limits_of_tensorflow) {
  const auto& limits = histogram_limits();
  ASSERT_EQ(limits.size(), 2u * 774u + 3u);
  EXPECT_TRUE(std::is_sorted(limits.begin(), limits.end()));
  EXPECT_EQ(limits.front(), -largest);
  EXPECT_EQ(limits.back(), largest);
  EXPECT_EQ(limits[775], 0.0);
  EXPECT_EQ(limits[776], 1e-12);
  EXPECT_EQ(limits[777], 1e-12 * 1.1);
  EXPECT_EQ(limits[778], 1e-12 * 1.1 * 1.1);
  EXPECT_LT(limits[limits.size() - 2], 1e20);
  EXPECT_GT(limits[limits.size() - 2] * 1.1, 1e20);
  for (std::size_t i = 0; i < limits.size(); ++i) EXPECT_EQ(limits[i], -limits[limits.size() - 1 - i]);
}

TEST(value_histogram, bucket_of_agrees_with_a_search_of_the_limits) {
  const auto& limits = histogram_limits();
  const auto expected = [&](double v) {
    const auto at = std::upper_bound(limits.begin(), limits.end(), v);
    return std::min<std::size_t>(static_cast<std::size_t>(at - limits.begin()), limits.size() - 1);
  };
  std::vector<double> values{0.0, -0.0, std::numeric_limits<double>::denorm_min(), -std::numeric_limits<double>::denorm_min(),
                             largest};
  for (double l : limits)
    for (double v : {l, std::nextafter(l, -largest), std::nextafter(l, largest)}) values.push_back(v);
  counter_rng rng(7);
  for (int i = 0; i < 100'000; ++i) {
    const auto v = std::bit_cast<double>(rng.draw_below(~0ull));
    if (std::isfinite(v)) values.push_back(v);
    values.push_back((static_cast<double>(rng.draw_below(1ull << 53)) / 0x1p52 - 1) *
                     std::pow(10.0, static_cast<double>(rng.draw_below(12)) - 9));
  }
  for (double v : values) ASSERT_EQ(bucket_of(v), expected(v)) << v;
}

TEST(value_histogram, parts_add_to_the_whole) {
  counter_rng rng(11);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> all;
    for (auto n = rng.draw_below(200); n > 0; --n) {
      const auto kind = rng.draw_below(20);
      const auto v = (static_cast<double>(rng.draw_below(2001)) - 1000) / 64;
      all.push_back(kind == 0 ? 0.0 : kind == 1 ? std::nan("") : kind == 2 ? -std::numeric_limits<double>::infinity() : v);
    }
    const auto whole = counted(all);
    const auto cut = static_cast<std::ptrdiff_t>(rng.draw_below(all.size() + 1));
    auto sum = counted({all.begin(), all.begin() + cut});
    add(sum, counted({all.begin() + cut, all.end()}));
    ASSERT_EQ(sum, whole);  // sums of multiples of 1/64 are exact
    ASSERT_TRUE(sound(sum, all.size()));
  }
}

TEST(value_histogram, refuses_numbers_that_do_not_agree) {
  const auto good = counted({-1, 0, 0, 0.5, 3, std::nan("")});
  ASSERT_TRUE(sound(good, 6));
  EXPECT_FALSE(sound(good, 5));
  const auto wrong = [&](auto change) {
    auto h = good;
    change(h);
    return !sound(h, 6);
  };
  EXPECT_TRUE(wrong([](auto& h) { h.count = 7; }));
  EXPECT_TRUE(wrong([](auto& h) { h.zeros = 7; }));
  EXPECT_TRUE(wrong([](auto& h) { h.not_finite = 2; }));
  EXPECT_TRUE(wrong([](auto& h) { h.not_finite = ~0ull; }));
  EXPECT_TRUE(wrong([](auto& h) { ++h.buckets[0].second; }));
  EXPECT_TRUE(wrong([](auto& h) { h.buckets[0].second = ~0ull; }));
  EXPECT_TRUE(wrong([](auto& h) { h.buckets.emplace_back(h.buckets.back()); }));
  EXPECT_TRUE(wrong([](auto& h) { std::swap(h.buckets[0].first, h.buckets[1].first); }));
  EXPECT_TRUE(wrong([](auto& h) { h.buckets.back().first = static_cast<std::uint16_t>(histogram_limits().size()); }));
  EXPECT_TRUE(wrong([](auto& h) { h.buckets.front().second = 0; }));
  EXPECT_TRUE(wrong([](auto& h) { h.min = std::nan(""); }));
  EXPECT_TRUE(wrong([](auto& h) { h.max = h.min - 1; }));
  EXPECT_TRUE(sound({}, 0));
}

TEST(value_histogram, events_round_trip) {
  std::vector<double> one_of_each;
  for (double l : histogram_limits()) one_of_each.push_back(std::nextafter(l, -largest));
  one_of_each.erase(one_of_each.begin());  // -inf
  for (const auto& h : {counted(one_of_each), counted({-1, 0, 0, 0.5, 3, std::nan("")}), value_histogram{}}) {
    auto values = histogram_values(h);
    values.insert(values.begin(), {"gradient", 1});
    const auto back = histogram_of(values);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, h);
  }
  const auto values = histogram_values(counted({0.001, 0.001, -2}));
  EXPECT_EQ(values[7], (std::pair<std::string, double>{"<-1.966", 1}));
  EXPECT_EQ(values[8], (std::pair<std::string, double>{"<0.001056", 2}));
}

TEST(value_histogram, refuses_malformed_events) {
  EXPECT_FALSE(histogram_of({}));
  EXPECT_FALSE(histogram_of({{"gradient", 0}, {"min", 1}}));
  EXPECT_FALSE(histogram_of({{"count", 1}, {"<0.5", 1}})) << "no limit";
  EXPECT_FALSE(histogram_of({{"count", 1}, {"<nan", 1}}));
  EXPECT_FALSE(histogram_of({{"count", 1}, {"<", 1}}));
  EXPECT_FALSE(histogram_of({{"count", 1}, {"<0", -1}}));
  EXPECT_FALSE(histogram_of({{"count", 2}, {"<0", 1}, {"<0", 1}}));
  EXPECT_TRUE(histogram_of({{"count", 1}, {"<0", 1}, {"of a later Troupe", 3}}));
}

}  // namespace
}  // namespace troupe
