// The kernels of ops/cuda/kernels/norm.hpp agree with the CPU device.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "ops/cuda/check.hpp"
#include "ops/cuda/kernels/norm.hpp"
#include "ops/device.hpp"
#include "tests/vgpu/against_cpu.hpp"
#include "tests/vgpu/device_user.hpp"

namespace troupe::vgpu {
namespace {

using cuda::check;
namespace kernels = cuda::kernels;

// Numbers between `low` and low + 2.
template <class T>
std::vector<T> norm_numbers(std::int64_t n, std::uint32_t seed, T low) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& e : v) seed = seed * 1664525u + 1013904223u, e = static_cast<T>(seed >> 8) / T(1 << 23) + low;
  return v;
}

// Inputs of all primitives. table: that of the CPU for mean, variance, weight and bias.
template <class T>
struct norm_case {
  norm_case(device& cpu, std::int64_t outer, std::int64_t mid, std::int64_t inner, bool rectified)
      : d(cpu), g{.outer = outer, .mid = mid, .inner = inner, .epsilon = 1e-5, .rectified = rectified} {
    auto t = tensor::allocate(d, {4 * mid}, dtype_of<T>);
    d.norm_table(g, cpu_tensor(d, mean), cpu_tensor(d, variance), cpu_tensor(d, weight), cpu_tensor(d, bias), t);
    table = cpu_values<T>(d, t);
  }
  device& d;
  norm_geometry g;
  std::int64_t n = g.outer * g.mid * g.inner;
  std::vector<T> x = norm_numbers<T>(n, 1, T(-0.6)), dy = norm_numbers<T>(n, 2, T(-0.8));
  std::vector<T> mean = norm_numbers<T>(g.mid, 3, T(-0.6)), variance = norm_numbers<T>(g.mid, 4, T(0.1));
  std::vector<T> weight = norm_numbers<T>(g.mid, 5, T(-0.5)), bias = norm_numbers<T>(g.mid, 6, T(-1));
  std::vector<T> sums = norm_numbers<T>(2 * g.mid, 7, T(-1)), table;
};

struct norm_shape {
  std::int64_t outer, mid, inner;
};
// Columns, short channels (a warp each) and long ones (a block each), and several blocks of 2048
// elements.
constexpr norm_shape norm_shapes[] = {{1, 1, 1},  {9, 1, 1},   {40, 7, 1},  {70, 33, 1},  {3, 1000, 1}, {1, 5, 2},
                                      {4, 3, 49}, {2, 3, 256}, {3, 2, 300}, {2, 1, 1025}, {6, 2, 400},  {2, 700, 3}};

// Calls test(case) with a new virtual GPU for each seed and shape, rectified or not. There must be
// no findings.
template <class T, class F>
void for_norm_cases(F test) {
  const auto d = make_cpu_device("baseline");
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    for (const auto& s : norm_shapes)
      for (const bool rectified : {false, true}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << s.outer << " x " << s.mid << " x " << s.inner
                                        << (rectified ? ", rectified" : ""));
        reset(options{.seed = seed});
        test(norm_case<T>(*d, s.outer, s.mid, s.inner, rectified));
        const auto list = findings();
        ASSERT_TRUE(list.empty()) << list[0];
      }
}

template <class T>
class norm_kernels : public testing::Test {};
using norm_types = testing::Types<float, double>;
TYPED_TEST_SUITE(norm_kernels, norm_types);

// with_parameters: with weight and bias.
template <class T>
void expect_norm_forward_of_cpu(const norm_case<T>& c, bool with_parameters) {
  device_user u;
  auto *variance = u.memory<T>(c.g.mid), *table = u.memory<T>(4 * c.g.mid), *y = u.memory<T>(c.n);
  kernels::norm_forward(u.stream, c.g, u.filled(c.x), with_parameters ? u.filled(c.weight) : nullptr,
                        with_parameters ? u.filled(c.bias) : nullptr, variance, table, y);
  const auto on_cpu = [&](std::int64_t count) { return tensor::allocate(c.d, {count}, dtype_of<T>); };
  auto want_variance = on_cpu(c.g.mid), want_table = on_cpu(4 * c.g.mid), want_y = on_cpu(c.n);
  c.d.norm_forward(c.g, cpu_tensor(c.d, c.x), with_parameters ? cpu_tensor(c.d, c.weight) : tensor{},
                   with_parameters ? cpu_tensor(c.d, c.bias) : tensor{}, want_variance, want_table, want_y);
  expect_close("variance", u.read(variance, c.g.mid), cpu_values<T>(c.d, want_variance));
  expect_close("table", u.read(table, 4 * c.g.mid), cpu_values<T>(c.d, want_table));
  expect_close("y", u.read(y, c.n), cpu_values<T>(c.d, want_y));
}

TYPED_TEST(norm_kernels, norm_forward_equals_the_cpu) {
  for_norm_cases<TypeParam>([](const auto& c) { expect_norm_forward_of_cpu(c, true); });
}

TYPED_TEST(norm_kernels, norm_forward_equals_the_cpu_without_weight_and_bias) {
  for_norm_cases<TypeParam>([](const auto& c) { expect_norm_forward_of_cpu(c, false); });
}

TYPED_TEST(norm_kernels, norm_forward_keeps_nan_and_infinity_in_their_channel) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for (const auto& s : {norm_shape{20, 5, 1}, norm_shape{2, 5, 30}, norm_shape{3, 5, 500}})
    for (const bool rectified : {false, true}) {
      reset({});
      norm_case<T> c(*d, s.outer, s.mid, s.inner, rectified);
      c.x[static_cast<std::size_t>(s.inner)] = std::numeric_limits<T>::quiet_NaN();     // channel 1
      c.x[static_cast<std::size_t>(3 * s.inner)] = std::numeric_limits<T>::infinity();  // channel 3
      expect_norm_forward_of_cpu(c, true);
      EXPECT_TRUE(findings().empty());
    }
}

TYPED_TEST(norm_kernels, norm_table_has_the_bits_of_the_cpu) {
  using T = TypeParam;
  for_norm_cases<T>([](const norm_case<T>& c) {
    device_user u;
    auto *with = u.memory<T>(4 * c.g.mid), *without = u.memory<T>(4 * c.g.mid);
    const T *mean = u.filled(c.mean), *variance = u.filled(c.variance), *none = nullptr;
    kernels::norm_table(u.stream, c.g, mean, variance, u.filled(c.weight), u.filled(c.bias), with);
    kernels::norm_table(u.stream, c.g, mean, variance, none, none, without);
    auto want = tensor::allocate(c.d, {4 * c.g.mid}, dtype_of<T>);
    c.d.norm_table(c.g, cpu_tensor(c.d, c.mean), cpu_tensor(c.d, c.variance), {}, {}, want);
    expect_bits("table", u.read(with, 4 * c.g.mid), c.table);
    expect_bits("table without parameters", u.read(without, 4 * c.g.mid), cpu_values<T>(c.d, want));
  });
}

TYPED_TEST(norm_kernels, norm_apply_has_the_bits_of_the_cpu) {
  using T = TypeParam;
  for_norm_cases<T>([](norm_case<T> c) {
    if (c.n > 2) c.x[2] = std::numeric_limits<T>::quiet_NaN();
    device_user u;
    auto* y = u.memory<T>(c.n);
    kernels::norm_apply(u.stream, c.g, u.filled(c.x), u.filled(c.table), y);
    auto want = tensor::allocate(c.d, {c.n}, dtype_of<T>);
    c.d.norm_apply(c.g, cpu_tensor(c.d, c.x), cpu_tensor(c.d, c.table), want);
    expect_bits("y", u.read(y, c.n), cpu_values<T>(c.d, want));
  });
}

TYPED_TEST(norm_kernels, norm_sums_equal_the_cpu) {
  using T = TypeParam;
  for_norm_cases<T>([](const norm_case<T>& c) {
    device_user u;
    auto* sums = u.memory<T>(2 * c.g.mid);
    kernels::norm_sums(u.stream, c.g, u.filled(c.x), u.filled(c.table), u.filled(c.dy), sums);
    auto want = tensor::allocate(c.d, {2 * c.g.mid}, dtype_of<T>);
    c.d.norm_sums(c.g, cpu_tensor(c.d, c.x), cpu_tensor(c.d, c.table), cpu_tensor(c.d, c.dy), want);
    expect_close("sums", u.read(sums, 2 * c.g.mid), cpu_values<T>(c.d, want));
  });
}

TYPED_TEST(norm_kernels, norm_slope_has_the_bits_of_the_cpu) {
  using T = TypeParam;
  for_norm_cases<T>([](norm_case<T> c) {
    if (c.n > 2) c.x[2] = std::numeric_limits<T>::quiet_NaN();
    const double count = 3.0 * static_cast<double>(c.n);  // of several packets
    device_user u;
    auto* dx = u.memory<T>(c.n);
    kernels::norm_slope(u.stream, c.g, u.filled(c.x), u.filled(c.table), u.filled(c.sums), count, u.filled(c.dy), dx);
    auto want = tensor::allocate(c.d, {c.n}, dtype_of<T>);
    c.d.norm_slope(c.g, cpu_tensor(c.d, c.x), cpu_tensor(c.d, c.table), cpu_tensor(c.d, c.sums), count, cpu_tensor(c.d, c.dy),
                   want);
    expect_bits("dx", u.read(dx, c.n), cpu_values<T>(c.d, want));
  });
}

TYPED_TEST(norm_kernels, norm_backward_equals_the_cpu) {
  using T = TypeParam;
  for_norm_cases<T>([](const norm_case<T>& c) {
    device_user u;
    auto *sums = u.memory<T>(2 * c.g.mid), *dx = u.memory<T>(c.n);
    kernels::norm_backward(u.stream, c.g, u.filled(c.x), u.filled(c.table), u.filled(c.dy), sums, dx);
    auto want_sums = tensor::allocate(c.d, {2 * c.g.mid}, dtype_of<T>), want = tensor::allocate(c.d, {c.n}, dtype_of<T>);
    c.d.norm_backward(c.g, cpu_tensor(c.d, c.x), cpu_tensor(c.d, c.table), cpu_tensor(c.d, c.dy), want_sums, want);
    expect_close("sums", u.read(sums, 2 * c.g.mid), cpu_values<T>(c.d, want_sums));
    expect_close("dx", u.read(dx, c.n), cpu_values<T>(c.d, want));
  });
}

TYPED_TEST(norm_kernels, nothing_is_launched_without_channels) {
  using T = TypeParam;
  reset({});
  device_user u;
  const norm_geometry g{.outer = 3, .mid = 0, .inner = 2};
  T* none = nullptr;
  const T* empty = nullptr;
  kernels::norm_forward(u.stream, g, empty, empty, empty, none, none, none);
  kernels::norm_backward(u.stream, g, empty, empty, empty, none, none);
  EXPECT_EQ(counted().kernels, 0u);
}

TYPED_TEST(norm_kernels, norm_sums_are_zero_when_there_are_no_elements) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for (const auto& s : {norm_shape{0, 3, 1}, norm_shape{0, 3, 4}, norm_shape{5, 3, 0}}) {
    reset({});
    device_user u;
    const norm_geometry g{.outer = s.outer, .mid = s.mid, .inner = s.inner};
    const norm_case<T> c(*d, 1, s.mid, 1, false);
    auto* sums = u.memory<T>(2 * s.mid);
    const T* empty = nullptr;
    kernels::norm_backward(u.stream, g, empty, u.filled(c.table), empty, sums, static_cast<T*>(nullptr));
    for (const T v : u.read(sums, 2 * s.mid)) EXPECT_EQ(v, T(0));
    EXPECT_TRUE(findings().empty());
  }
}

}  // namespace
}  // namespace troupe::vgpu
