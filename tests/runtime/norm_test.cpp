// The sum of squares of a parameter has the same bits however the parameter is cut over shards.
#include "runtime/reduce/norm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/device.hpp"
#include "tests/ops/support.hpp"

namespace troupe {
namespace {

tensor numbers(device& dev, std::int64_t n, dtype type) {
  auto t = tensor::allocate(dev, {n}, type);
  dev.fill_gaussian({5, 6, 7}, 0.5, 1.0, t);
  return t;
}

TEST(norm, is_the_sum_of_squares) {
  for (const char* isa : {"baseline", "x86-64-v3", "x86-64-v4"}) {
    const auto dev = make_cpu_device(isa);
    if (!dev) continue;
    for (const std::int64_t n : {1, 15, 16, 17, 31, 48, 100, 1000, 4096, 70001}) {
      const auto t = numbers(*dev, n, dtype::f64);
      long double want = 0;
      for (std::int64_t i = 0; i < n; ++i) want += static_cast<long double>(t.data<double>()[i]) * t.data<double>()[i];
      EXPECT_NEAR(test::squares_of(*dev, t) / static_cast<double>(want), 1.0, 1e-14) << n;
      EXPECT_EQ(test::squares_of(*dev, t), test::squares_of(*make_cpu_device("baseline"), t)) << n;
    }
    auto t = numbers(*dev, 100, dtype::f32);
    t.mutable_data<float>()[97] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(test::squares_of(*dev, t)));
  }
}

TEST(norm, has_the_same_bits_for_any_cut) {
  const auto dev = make_cpu_device();
  for (const dtype type : {dtype::f32, dtype::f64})
    for (const std::int64_t n : {5, 16, 40, 162, 1000, 4096, 10007}) {
      const auto whole = numbers(*dev, n, type);
      const double want = test::squares_of(*dev, whole);
      for (std::int64_t shards = 1; shards <= 7; ++shards) {
        std::vector<square_sum> parts;
        std::size_t most = 0;
        for (std::int64_t s = 0, begin = 0; s < shards; ++s) {
          // Uneven on purpose: part s ends at (s + 1)^2 / shards^2 of the whole.
          const auto end =
              s + 1 == shards ? n : std::max(begin, n * (s + 1) * (s + 1) / shards / shards / squares_group * squares_group);
          const auto found = std::make_shared<std::vector<square_sum>>();
          find_square_sums(*dev, whole.slice(begin, {end - begin}), begin, n, found);
          const auto& sums = *found;
          most = std::max(most, sums.size());
          parts.insert(parts.begin(), sums.begin(), sums.end());  // the last first
          begin = end;
        }
        EXPECT_EQ(sum_of_squares(parts, n), want) << n << " elements, " << shards << " shards";
        EXPECT_LE(most, 2 * std::log2(n) + 1) << "few numbers travel";
        auto twice = parts;
        twice.insert(twice.end(), parts.begin(), parts.end());
        EXPECT_EQ(sum_of_squares(twice, n), want) << "what comes twice counts once";
        if (parts.size() < 2) continue;
        parts.pop_back();
        EXPECT_FALSE(sum_of_squares(parts, n)) << "a part is missing";
      }
    }
}

}  // namespace
}  // namespace troupe
