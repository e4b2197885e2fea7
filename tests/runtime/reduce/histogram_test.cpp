// Counting the values of tensors, on host memory and on a device that fetches.
#include "runtime/reduce/histogram.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/device.hpp"

namespace troupe {
namespace {

template <class T>
tensor of(std::vector<T> values, dtype type) {
  const auto v = std::make_shared<std::vector<T>>(std::move(values));
  return tensor::adopt(v, v->data(), {static_cast<std::int64_t>(v->size())}, type);
}

TEST(count_values, counts_every_floating_type_alike) {
  const std::vector<float> values{-1.5f, 0, 0.25f, 0.25f, 2, 0, -0.0f};
  const auto f32 = count_values(of(values, dtype::f32));
  EXPECT_EQ(f32.count, 7u);
  EXPECT_EQ(f32.zeros, 3u);
  EXPECT_EQ(f32.min, -1.5);
  EXPECT_EQ(f32.max, 2);
  EXPECT_EQ(f32.sum, 1);
  EXPECT_EQ(f32.sum_squares, 2.25 + 0.125 + 4);
  EXPECT_EQ(f32.buckets.size(), 4u);
  EXPECT_TRUE(sound(f32, 7));
  EXPECT_EQ(count_values(of(std::vector<double>(values.begin(), values.end()), dtype::f64)), f32);
  const auto d = make_cpu_device();
  auto halves = tensor::allocate(*d, {7}, dtype::bf16);
  d->copy(of(values, dtype::f32), halves);
  EXPECT_EQ(count_values(halves), f32) << "all values are bf16 numbers";
}

TEST(count_values, multiplies_by_the_scale) {
  const auto h = count_values(of(std::vector<float>{1, -4}, dtype::f32), 0.25);
  EXPECT_EQ(h.min, -1);
  EXPECT_EQ(h.max, 0.25);
  EXPECT_EQ(h, count_values(of(std::vector<float>{0.25f, -1}, dtype::f32)));
}

TEST(count_values, keeps_infinities_and_nan_apart) {
  const auto inf = std::numeric_limits<float>::infinity();
  const auto h = count_values(of(std::vector<float>{inf, -inf, std::nanf(""), 1, std::numeric_limits<float>::max()}, dtype::f32));
  EXPECT_EQ(h.not_finite, 3u);
  EXPECT_EQ(h.min, 1);
  EXPECT_EQ(h.max, std::numeric_limits<float>::max());
  EXPECT_TRUE(sound(h, 5));
  const auto none = count_values(of(std::vector<float>{inf}, dtype::f32));
  EXPECT_EQ(none.min, 0);
  EXPECT_TRUE(sound(none, 1));
}

TEST(count_values, has_no_values_of_tensors_without_memory_or_of_integers) {
  EXPECT_EQ(count_values(tensor::declare({4}, dtype::f32)), value_histogram{});
  EXPECT_EQ(count_values(of(std::vector<std::int32_t>{1, 2}, dtype::i32)), value_histogram{});
}

TEST(value_counter, takes_the_values_as_they_are_now) {
  const auto d = make_cpu_device();
  auto t = tensor::allocate(*d, {3}, dtype::f32);
  d->fill(2, t);
  value_counter c;
  EXPECT_FALSE(c.result());
  c.take(*d, t);
  d->fill(5, t);
  EXPECT_FALSE(c.owes());
  ASSERT_TRUE(c.result());
  EXPECT_EQ(c.result()->max, 2);
  value_counter none;
  none.take(*d, tensor::declare({4}, dtype::f32));
  EXPECT_FALSE(none.result() || none.owes());
}

}  // namespace
}  // namespace troupe
