// The sum of squares of a parameter has the same bits however shards cut the parameter.
#include "runtime/reduce/norm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/device.hpp"
#include "runtime/sync/norm_clip.hpp"
#include "tests/ops/support.hpp"

namespace troupe {
namespace {

tensor numbers(device& dev, std::int64_t n, dtype type) {
  auto t = tensor::allocate(dev, {n}, type);
  dev.fill_gaussian({5, 6, 7}, 0.5, 1.0, t);
  return t;
}

TEST(norm, is_the_sum_of_squares_for_every_instruction_set) {
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
          // Uneven parts: part s ends at (s + 1)^2 / shards^2 of the whole.
          const auto end =
              s + 1 == shards ? n : std::max(begin, n * (s + 1) * (s + 1) / shards / shards / squares_group * squares_group);
          const auto found = std::make_shared<std::vector<square_sum>>();
          find_square_sums(*dev, whole.slice(begin, {end - begin}), begin, n, found);
          const auto& sums = *found;
          most = std::max(most, sums.size());
          parts.insert(parts.begin(), sums.begin(), sums.end());  // in reverse order
          begin = end;
        }
        EXPECT_EQ(sum_of_squares(parts, n), want) << n << " elements, " << shards << " shards";
        EXPECT_LE(most, 2 * std::log2(n) + 1) << "few partial sums are sent";
        auto twice = parts;
        twice.insert(twice.end(), parts.begin(), parts.end());
        EXPECT_EQ(sum_of_squares(twice, n), want) << "a repeated part counts once";
        if (parts.size() < 2) continue;
        parts.pop_back();
        EXPECT_FALSE(sum_of_squares(parts, n)) << "a part is missing";
      }
    }
}

TEST(norm, sum_of_rows_has_the_same_bits_for_any_number_of_rows_per_part) {
  const auto dev = make_cpu_device();
  constexpr std::int64_t rows = 9, columns = 11;
  const auto whole = numbers(*dev, rows * columns, dtype::f64);
  const auto one = std::make_shared<std::vector<square_sum>>();
  find_square_sums_of_rows(*dev, whole, columns, 0, one);
  const auto want = sum_of_rows(*one, rows);
  ASSERT_TRUE(want);
  EXPECT_NEAR(*want, test::squares_of(*dev, whole), 1e-12 * *want);
  for (const std::int64_t together : {1, 2, 4, 7}) {
    std::vector<square_sum> parts;
    for (std::int64_t row = 0; row < rows; row += together) {
      const auto found = std::make_shared<std::vector<square_sum>>();
      find_square_sums_of_rows(*dev, whole.slice(row * columns, {std::min(together, rows - row) * columns}), columns, row, found);
      parts.insert(parts.begin(), found->begin(), found->end());  // in reverse order
    }
    EXPECT_EQ(sum_of_rows(parts, rows), want) << together;
    parts.push_back(parts.front());
    EXPECT_FALSE(sum_of_rows(parts, rows)) << "a row is repeated";
    parts.pop_back(), parts.pop_back();
    EXPECT_FALSE(sum_of_rows(parts, rows)) << "a row is missing";
  }
}

// A layer in two parts: cut by columns, by rows at any element, and at groups of elements, where
// the whole parameter is one part.
TEST(norm, parts_do_not_depend_on_the_cut_into_blocks) {
  const auto block = [](std::uint32_t id, std::int64_t begin, std::int64_t count, std::vector<std::uint32_t> takers,
                        std::int64_t run = 0) {
    return param_block{id, 0, begin, count, no_role, std::move(takers), run, run > 0 ? std::int64_t{64} : 0};
  };
  const std::vector<param_block> columns{block(0, 0, 60, {1}, 30), block(1, 30, 68, {2}, 34), block(2, 128, 60, {1}, 30),
                                         block(3, 158, 68, {2}, 34)};
  auto parts = norm_parts(columns, 0, 256);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_TRUE(parts[0].rows && parts[1].rows);
  EXPECT_EQ(parts[0].total, 4);
  EXPECT_EQ(parts[0].blocks, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(place_in_norm_part(columns, columns[3], 256).begin, 2);

  const std::vector<param_block> rows{block(0, 0, 20, {1}), block(1, 20, 16, {2}), block(2, 36, 8, {2})};
  parts = norm_parts(rows, 0, 44);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1].total, 24);
  EXPECT_EQ(place_in_norm_part(rows, rows[2], 44).begin, 16);

  const std::vector<param_block> groups{block(0, 0, 32, {1}), block(1, 32, 12, {2})};
  parts = norm_parts(groups, 0, 44);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].total, 44);
  EXPECT_EQ(place_in_norm_part(groups, groups[1], 44).begin, 32);
}

}  // namespace
}  // namespace troupe
