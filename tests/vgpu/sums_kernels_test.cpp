// The kernels of ops/cuda/kernels/sums.hpp agree with the CPU device.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cuda/check.hpp"
#include "ops/cuda/kernels/sums.hpp"
#include "ops/device.hpp"
#include "tests/vgpu/against_cpu.hpp"
#include "tests/vgpu/device_user.hpp"

namespace troupe::vgpu {
namespace {

using cuda::check;
namespace kernels = cuda::kernels;

// Numbers around 0.4 of magnitude up to 1.4, so that sums do not cancel.
template <class T>
std::vector<T> summands(std::int64_t n, std::uint32_t seed) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& e : v) seed = seed * 1664525u + 1013904223u, e = static_cast<T>(seed >> 8) / T(1 << 23) - T(0.6);
  return v;
}

struct sums_shape {
  std::int64_t outer, mid, inner;
  std::int64_t count() const { return outer * mid * inner; }
};
// Columns, short channels (a warp each) and long ones (a block each).
constexpr sums_shape sums_shapes[] = {{1, 1, 1},    {7, 1, 1},   {300, 1, 1}, {5, 3, 1},    {100, 10, 1}, {33, 70, 1}, {1, 45, 1},
                                      {1, 9, 20},   {3, 5, 2},   {2, 3, 31},  {4, 11, 32},  {3, 2, 49},   {2, 3, 300}, {16, 2, 64},
                                      {1, 1, 1024}, {5, 2, 205}, {9, 3, 255}, {2, 1, 2000}, {1500, 2, 3}, {700, 1, 2}};

// Calls test(shape) with a new virtual GPU for each seed and shape. There must be no findings.
template <class F>
void for_sums_shapes(F test) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    for (const auto& s : sums_shapes) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << s.outer << " x " << s.mid << " x " << s.inner);
      reset(options{.seed = seed});
      test(s);
      const auto list = findings();
      ASSERT_TRUE(list.empty()) << list[0];
    }
}

template <class T>
class sums_kernels : public testing::Test {};
using sums_types = testing::Types<float, double>;
TYPED_TEST_SUITE(sums_kernels, sums_types);

TYPED_TEST(sums_kernels, reduce_sum_equals_the_cpu) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for_sums_shapes([&](const sums_shape& s) {
    const auto x = summands<T>(s.count(), 1);
    device_user u;
    auto* out = u.memory<T>(s.mid);
    kernels::reduce_sum(u.stream, s.outer, s.mid, s.inner, u.filled(x), out);
    auto want = tensor::allocate(*d, {s.mid}, dtype_of<T>);
    d->reduce_sum(s.outer, s.mid, s.inner, cpu_tensor(*d, x), want);
    expect_close("sums", u.read(out, s.mid), cpu_values<T>(*d, want));
  });
}

TYPED_TEST(sums_kernels, reduce_product_equals_the_cpu) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for_sums_shapes([&](const sums_shape& s) {
    const auto x = summands<T>(s.count(), 1), y = summands<T>(s.count(), 2);
    device_user u;
    auto* out = u.memory<T>(s.mid);
    kernels::reduce_product(u.stream, s.outer, s.mid, s.inner, u.filled(x), u.filled(y), out);
    auto want = tensor::allocate(*d, {s.mid}, dtype_of<T>);
    d->reduce_product(s.outer, s.mid, s.inner, cpu_tensor(*d, x), cpu_tensor(*d, y), want);
    expect_close("sums", u.read(out, s.mid), cpu_values<T>(*d, want));
  });
}

// The moments of x on the virtual GPU and on the CPU.
template <class T>
void expect_moments_of_cpu(device& d, const sums_shape& s, const std::vector<T>& x) {
  device_user u;
  auto *mean = u.memory<T>(s.mid), *variance = u.memory<T>(s.mid);
  kernels::moments(u.stream, s.outer, s.mid, s.inner, u.filled(x), mean, variance);
  auto want_mean = tensor::allocate(d, {s.mid}, dtype_of<T>), want_variance = tensor::allocate(d, {s.mid}, dtype_of<T>);
  d.moments(s.outer, s.mid, s.inner, cpu_tensor(d, x), want_mean, want_variance);
  expect_close("sums", u.read(mean, s.mid), cpu_values<T>(d, want_mean));
  expect_close("sums", u.read(variance, s.mid), cpu_values<T>(d, want_variance));
}

TYPED_TEST(sums_kernels, moments_equal_the_cpu) {
  const auto d = make_cpu_device("baseline");
  for_sums_shapes([&](const sums_shape& s) { expect_moments_of_cpu(*d, s, summands<TypeParam>(s.count(), 3)); });
}

TYPED_TEST(sums_kernels, moments_do_not_cancel_when_the_mean_is_large) {
  using T = TypeParam;
  // Channels: neighbouring numbers are 0.5 apart, and T cannot represent the mean, large + 1/3.
  const T large = std::ldexp(T(1), std::numeric_limits<T>::digits - 2);
  for (const auto& s : {sums_shape{3, 2, 66}, sums_shape{8, 1, 399}}) {
    reset({});
    std::vector<T> x(static_cast<std::size_t>(s.count()));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = large + T(i % 3 == 0 ? 1 : 0);
    device_user u;
    auto *mean = u.memory<T>(s.mid), *variance = u.memory<T>(s.mid);
    kernels::moments(u.stream, s.outer, s.mid, s.inner, u.filled(x), mean, variance);
    for (const T m : u.read(mean, s.mid)) EXPECT_NEAR(m - large, 1.0 / 3, 0.25);
    for (const T v : u.read(variance, s.mid)) EXPECT_NEAR(v, 2.0 / 9, 1e-6);
    EXPECT_TRUE(findings().empty());
  }
}

TYPED_TEST(sums_kernels, moments_of_columns_do_not_cancel_when_the_mean_is_large) {
  using T = TypeParam;
  reset({});
  std::vector<T> x(120);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = T(4096) + T(i / 3 % 2);
  device_user u;
  auto *mean = u.memory<T>(3), *variance = u.memory<T>(3);
  kernels::moments(u.stream, 40, 3, 1, u.filled(x), mean, variance);
  for (const T m : u.read(mean, 3)) EXPECT_NEAR(m, 4096.5, 1e-3);
  for (const T v : u.read(variance, 3)) EXPECT_NEAR(v, 0.25, 1e-6);
  EXPECT_TRUE(findings().empty());
}

TYPED_TEST(sums_kernels, nan_and_infinity_stay_in_their_channel) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for (const auto& s : {sums_shape{20, 5, 1}, sums_shape{2, 5, 30}, sums_shape{3, 5, 500}}) {
    reset({});
    auto x = summands<T>(s.count(), 4);
    x[static_cast<std::size_t>(s.inner)] = std::numeric_limits<T>::quiet_NaN();     // channel 1
    x[static_cast<std::size_t>(3 * s.inner)] = std::numeric_limits<T>::infinity();  // channel 3
    {
      device_user u;
      auto* out = u.memory<T>(s.mid);
      kernels::reduce_sum(u.stream, s.outer, s.mid, s.inner, u.filled(x), out);
      auto want = tensor::allocate(*d, {s.mid}, dtype_of<T>);
      d->reduce_sum(s.outer, s.mid, s.inner, cpu_tensor(*d, x), want);
      expect_close("sums", u.read(out, s.mid), cpu_values<T>(*d, want));
    }
    expect_moments_of_cpu(*d, s, x);
    EXPECT_TRUE(findings().empty());
  }
}

TYPED_TEST(sums_kernels, sums_over_no_elements_are_zero) {
  using T = TypeParam;
  for (const auto& s : {sums_shape{0, 3, 1}, sums_shape{0, 40, 5}, sums_shape{4, 3, 0}}) {
    reset({});
    device_user u;
    const T* none = nullptr;
    auto *sum = u.memory<T>(s.mid), *product = u.memory<T>(s.mid), *mean = u.memory<T>(s.mid), *variance = u.memory<T>(s.mid);
    kernels::reduce_sum(u.stream, s.outer, s.mid, s.inner, none, sum);
    kernels::reduce_product(u.stream, s.outer, s.mid, s.inner, none, none, product);
    kernels::moments(u.stream, s.outer, s.mid, s.inner, none, mean, variance);
    for (const T v : u.read(sum, s.mid)) EXPECT_EQ(v, T(0));
    for (const T v : u.read(product, s.mid)) EXPECT_EQ(v, T(0));
    for (const T v : u.read(mean, s.mid)) EXPECT_TRUE(std::isnan(v));
    for (const T v : u.read(variance, s.mid)) EXPECT_TRUE(std::isnan(v));
    EXPECT_TRUE(findings().empty());
  }
}

TYPED_TEST(sums_kernels, nothing_is_launched_without_channels) {
  using T = TypeParam;
  reset({});
  device_user u;
  T* none = nullptr;
  kernels::reduce_sum(u.stream, 3, 0, 5, none, none);
  kernels::reduce_product(u.stream, 3, 0, 1, none, none, none);
  kernels::moments(u.stream, 3, 0, 5, none, none, none);
  EXPECT_EQ(counted().kernels, 0u);
}

template <class T>
void expect_squares_of_cpu(device& d, const std::vector<T>& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  device_user u;
  auto* sum = u.memory<double>(1);
  kernels::sum_squares(u.stream, n, u.filled(x), sum, u.memory<double>(kernels::sum_squares_scratch(n)));
  auto want = tensor::allocate(d, {1}, dtype::f64);
  d.sum_squares(cpu_tensor(d, x), want);
  const double a = u.read(sum, 1)[0], b = d.scalar(want);
  if (std::isnan(b))
    EXPECT_TRUE(std::isnan(a));
  else
    EXPECT_EQ(std::bit_cast<std::uint64_t>(a), std::bit_cast<std::uint64_t>(b)) << a << " and " << b;
}

TYPED_TEST(sums_kernels, sum_squares_has_the_bits_of_the_cpu) {
  const auto d = make_cpu_device("baseline");
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    for (const std::int64_t n : {0, 1, 15, 16, 17, 31, 33, 500, 4095, 4096, 4097, 12288, 70001, 100000}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << n << " elements");
      reset(options{.seed = seed});
      expect_squares_of_cpu(*d, summands<TypeParam>(n, 5));
      const auto list = findings();
      ASSERT_TRUE(list.empty()) << list[0];
    }
}

TYPED_TEST(sums_kernels, sum_squares_uses_three_levels_when_there_are_many_nodes) {
  const std::int64_t n = 4096 * 257 + 5;
  EXPECT_EQ(kernels::sum_squares_scratch(4096), 0);
  EXPECT_EQ(kernels::sum_squares_scratch(n), 258 + 2);
  const auto d = make_cpu_device("baseline");
  const auto x = summands<TypeParam>(n, 6);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    reset(options{.seed = seed});
    expect_squares_of_cpu(*d, x);
    EXPECT_EQ(counted().kernels, 3u);
    EXPECT_TRUE(findings().empty());
  }
}

TYPED_TEST(sums_kernels, sum_squares_is_not_finite_when_an_element_is_not) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for (const T v : {std::numeric_limits<T>::quiet_NaN(), -std::numeric_limits<T>::infinity()}) {
    reset({});
    auto x = summands<T>(5000, 7);
    x[4321] = v;
    expect_squares_of_cpu(*d, x);
    EXPECT_TRUE(findings().empty());
  }
}

}  // namespace
}  // namespace troupe::vgpu
