// The kernels of ops/cuda/kernels/elementwise.hpp compute the results of the CPU device: bit by bit
// where they use + - * / sqrt and comparisons only, otherwise within a tolerance.
#include "ops/cuda/kernels/elementwise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "ops/bf16.hpp"
#include "ops/cuda/check.hpp"
#include "tests/vgpu/against_cpu.hpp"
#include "tests/vgpu/device_user.hpp"

namespace troupe::vgpu {
namespace {

using cuda::check;
namespace kernels = cuda::kernels;

constexpr std::int64_t beyond_one_grid = 2112 * 256 + 77;  // elements
const std::vector<std::int64_t> elementwise_counts = {0, 1, 31, 257, 1000};
const double elementwise_nan = std::numeric_limits<double>::quiet_NaN(),
             elementwise_infinity = std::numeric_limits<double>::infinity();

// Calls run() with a new virtual GPU for each of three seeds, and expects no findings.
template <class F>
void elementwise_over_seeds(F run) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    reset(options{.seed = seed});
    run();
    const auto list = findings();
    EXPECT_TRUE(list.empty()) << list[0];
  }
}

// Numbers between -4 and 4, with zeros of both signs, infinities and NaN among them from the 20th
// on.
template <class T>
std::vector<T> elementwise_numbers(std::int64_t n, unsigned kind, bool special = true) {
  std::vector<T> v(static_cast<std::size_t>(n));
  std::uint32_t state = 12345 + kind;
  for (std::size_t i = 0; i < v.size(); ++i) {
    state = state * 1664525 + 1013904223;
    v[i] = static_cast<T>(state >> 8) / static_cast<T>(1 << 21) - T(4);
    if (special && i >= 20 && (state >> 12) % 8 == 0) {
      const double values[] = {0.0, -0.0, elementwise_infinity, -elementwise_infinity, elementwise_nan, 1.0, 1e-39, -2.0};
      v[i] = static_cast<T>(values[(state >> 20) % 8]);
    }
  }
  return v;
}

template <class T>
void expect_same_elements(const std::vector<T>& a, const std::vector<T>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(same_bits(a[i], b[i])) << what << ": element " << i << ": " << a[i] << ", CPU " << b[i];
}
template <class T>
void expect_near_elements(const std::vector<T>& a, const std::vector<T>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  T most = 0;
  for (const T v : b)
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  const T tolerance = (sizeof(T) == 4 ? T(1e-5) : T(1e-12)) * most;
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(same_bits(a[i], b[i]) || std::abs(a[i] - b[i]) <= tolerance)
        << what << ": element " << i << ": " << a[i] << ", CPU " << b[i];
}

// A tensor of the CPU with the elements of v; an empty tensor if v is empty and `optional`.
template <class T>
tensor elementwise_tensor(device& d, const std::vector<T>& v, bool optional = false) {
  if (v.empty() && optional) return {};
  tensor t = tensor::allocate(d, shape{static_cast<std::int64_t>(v.size())}, dtype_of<T>);
  d.upload(v.data(), t);
  return t;
}
template <class T>
std::vector<T> elementwise_values(device& d, const tensor& t) {
  std::vector<T> v(static_cast<std::size_t>(t.count()));
  if (!v.empty()) d.download(t, v.data());
  return v;
}

template <class T>
class elementwise_kernels : public testing::Test {};
using elementwise_types = testing::Types<float, double>;
TYPED_TEST_SUITE(elementwise_kernels, elementwise_types);

TYPED_TEST(elementwise_kernels, fill_sets_every_element_when_sizes_vary) {
  using T = TypeParam;
  elementwise_over_seeds([] {
    for (const auto n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{257}, beyond_one_grid}) {
      device_user u;
      auto v = elementwise_numbers<T>(n, 1);
      T* x = u.filled(v);
      kernels::fill(u.stream, 0.1, n, x);
      u.read(x, v);
      expect_same_elements(v, std::vector<T>(v.size(), static_cast<T>(0.1)), "fill");
    }
  });
}

TEST(elementwise_kernels, fill_converts_as_the_cpu_when_elements_are_i32_or_bf16) {
  elementwise_over_seeds([] {
    const auto d = make_cpu_device("baseline");
    for (const double value : {0.0, -7.9, 3.3, 123456.7}) {
      device_user u;
      std::vector<std::int32_t> whole(300, 1);
      std::vector<std::uint16_t> half(300, 1);
      auto* x = u.filled(whole);
      auto* y = u.filled(half);
      kernels::fill(u.stream, value, 300, x);
      kernels::fill(u.stream, value, 300, reinterpret_cast<bf16*>(y));
      u.read(x, whole);
      u.read(y, half);
      tensor a = tensor::allocate(*d, shape{300}, dtype::i32), b = tensor::allocate(*d, shape{300}, dtype::bf16);
      d->fill(value, a);
      d->fill(value, b);
      EXPECT_EQ(std::memcmp(a.raw(), whole.data(), a.bytes()), 0) << value;
      EXPECT_EQ(std::memcmp(b.raw(), half.data(), b.bytes()), 0) << value;
    }
  });
}

TYPED_TEST(elementwise_kernels, axpy_and_scale_have_the_bits_of_the_cpu_when_sizes_vary) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  elementwise_over_seeds([&] {
    for (const auto n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{31}, std::int64_t{1000}, beyond_one_grid}) {
      device_user u;
      const auto x = elementwise_numbers<T>(n, 2);
      auto y = elementwise_numbers<T>(n, 3);
      tensor tx = elementwise_tensor(*d, x), ty = elementwise_tensor(*d, y);
      T *dx = u.filled(x), *dy = u.filled(y);
      kernels::axpy(u.stream, 0.3, n, dx, dy);
      kernels::scale(u.stream, -1.7, n, dy);
      u.read(dy, y);
      d->axpy(0.3, tx, ty);
      d->scale(-1.7, ty);
      expect_same_elements(y, elementwise_values<T>(*d, ty), "axpy, scale");
    }
  });
}

TYPED_TEST(elementwise_kernels, apply_has_the_bits_of_the_cpu_when_operands_are_nan) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  elementwise_over_seeds([&] {
    for (const auto n : elementwise_counts)
      for (const auto op : {binary::add, binary::subtract, binary::multiply, binary::maximum, binary::rectified_sum}) {
        device_user u;
        const auto x = elementwise_numbers<T>(n, 4), y = elementwise_numbers<T>(n, 5);
        auto z = x;
        const tensor tx = elementwise_tensor(*d, x), ty = elementwise_tensor(*d, y);
        tensor tz = elementwise_tensor(*d, x);
        T *dx = u.filled(x), *dy = u.filled(y), *dz = u.filled(z);
        kernels::apply(u.stream, op, n, dx, dy, dz);
        u.read(dz, z);
        d->apply(op, tx, ty, tz);
        const auto expected = elementwise_values<T>(*d, tz);
        expect_same_elements(z, expected, "apply " + std::to_string(static_cast<int>(op)));
        kernels::apply(u.stream, op, n, dx, dy, dx);
        u.read(dx, z);
        expect_same_elements(z, expected, "apply in place " + std::to_string(static_cast<int>(op)));
      }
  });
}

struct channel_extents {
  std::int64_t outer, mid, inner;
};
const std::vector<channel_extents> channel_shapes = {{0, 3, 4},   {1, 1, 1},   {7, 33, 1}, {3, 5, 49},
                                                     {2, 3, 257}, {1, 1, 300}, {300, 1, 1}};

TYPED_TEST(elementwise_kernels, add_bias_has_the_bits_of_the_cpu_when_shapes_vary) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  elementwise_over_seeds([&] {
    for (const auto& e : channel_shapes) {
      device_user u;
      const auto bias = elementwise_numbers<T>(e.mid, 6);
      auto y = elementwise_numbers<T>(e.outer * e.mid * e.inner, 7);
      const tensor tb = elementwise_tensor(*d, bias);
      tensor ty = elementwise_tensor(*d, y);
      T *db = u.filled(bias), *dy = u.filled(y);
      kernels::add_bias(u.stream, e.outer, e.mid, e.inner, db, dy);
      u.read(dy, y);
      d->add_bias(e.outer, e.mid, e.inner, tb, ty);
      expect_same_elements(y, elementwise_values<T>(*d, ty), "add_bias");
    }
  });
}

TYPED_TEST(elementwise_kernels, blend_has_the_bits_of_the_cpu_when_operands_are_absent) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  elementwise_over_seeds([&] {
    for (const auto& e : channel_shapes)
      for (unsigned present = 0; present < 16; ++present) {
        const auto n = e.outer * e.mid * e.inner;
        const auto numbers = [&](unsigned k, std::int64_t count) {
          return elementwise_numbers<T>(present >> k & 1 ? count : 0, 8 + k);
        };
        device_user u;
        auto x = elementwise_numbers<T>(n, 20);
        const auto a = numbers(0, e.mid), y = numbers(1, n), b = numbers(2, e.mid), shift = numbers(3, e.mid);
        const auto given = [&](const std::vector<T>& v) { return elementwise_tensor(*d, v, true); };
        const tensor tx = elementwise_tensor(*d, x);
        tensor out = elementwise_tensor(*d, x);
        T* dx = u.filled(x);
        const T *da = u.filled(a), *dy = u.filled(y), *db = u.filled(b), *ds = u.filled(shift);
        kernels::blend(u.stream, e.outer, e.mid, e.inner, dx, da, dy, db, ds, dx);
        u.read(dx, x);
        d->blend(e.outer, e.mid, e.inner, tx, given(a), given(y), given(b), given(shift), out);
        expect_same_elements(x, elementwise_values<T>(*d, out), "blend " + std::to_string(present));
      }
  });
}

TYPED_TEST(elementwise_kernels, select_equal_has_the_bits_of_the_cpu_when_numbers_are_equal) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  elementwise_over_seeds([&] {
    for (const auto n : elementwise_counts) {
      device_user u;
      const auto x = elementwise_numbers<T>(n, 40), dy = elementwise_numbers<T>(n, 42);
      auto y = elementwise_numbers<T>(n, 41), dx = x;
      for (std::size_t i = 0; i < y.size(); i += 2) y[i] = x[i];
      const tensor tx = elementwise_tensor(*d, x), ty = elementwise_tensor(*d, y), tdy = elementwise_tensor(*d, dy);
      tensor tdx = elementwise_tensor(*d, x);
      const T *px = u.filled(x), *py = u.filled(y), *pdy = u.filled(dy);
      T* pdx = u.filled(dx);
      kernels::select_equal(u.stream, n, px, py, pdy, pdx);
      u.read(pdx, dx);
      d->select_equal(tx, ty, tdy, tdx);
      expect_same_elements(dx, elementwise_values<T>(*d, tdx), "select_equal");
    }
  });
}

struct function_case {
  unary f;
  double parameter;
  bool exact, backward_exact;  // bits of the CPU
};
const std::vector<function_case> function_cases = {{unary::relu, 0, true, true},
                                                   {unary::relu, 0.1, true, true},
                                                   {unary::sigmoid, 0, false, true},
                                                   {unary::tanh, 0, false, true},
                                                   {unary::exp, 0, false, true},
                                                   {unary::log, 0, false, true},
                                                   {unary::sqrt, 0, true, true},
                                                   {unary::square, 0, true, true},
                                                   {unary::absolute, 0, true, true},
                                                   {unary::elu, 0.7, false, true},
                                                   {unary::gelu, 0, false, false},
                                                   {unary::gelu_tanh, 0, false, false},
                                                   {unary::inverse_root, 1e-3, true, true},
                                                   {unary::relu6, 0.75, true, true},
                                                   {unary::silu, 0, false, false},
                                                   {unary::hard_sigmoid, 1.0 / 6, true, true},
                                                   {unary::hard_swish, 0, true, true}};

// Checks map and map_backward of one function for n elements, separately and in place. y of the
// backward is that of the CPU.
template <class T>
void check_function(device& d, const function_case& c, std::int64_t n) {
  device_user u;
  const auto what = "function " + std::to_string(static_cast<int>(c.f));
  const auto x = elementwise_numbers<T>(n, 50), dy = elementwise_numbers<T>(n, 51);
  tensor tx = elementwise_tensor(d, x), ty = elementwise_tensor(d, x), tdy = elementwise_tensor(d, dy),
         tdx = elementwise_tensor(d, x);
  d.map(c.f, c.parameter, tx, ty);
  const auto y = elementwise_values<T>(d, ty);
  const bool of_x = device::needs_input(c.f);
  d.map_backward(c.f, c.parameter, of_x ? tx : tensor(), of_x ? tensor() : ty, tdy, tdx);
  const auto slope = elementwise_values<T>(d, tdx);
  const auto compare = [&](const std::vector<T>& a, const std::vector<T>& b, bool exact) {
    exact ? expect_same_elements(a, b, what) : expect_near_elements(a, b, what);
  };

  auto got = x;
  T *px = u.filled(x), *out = u.filled(x), *pdy = u.filled(dy);
  const T* py = u.filled(y);
  kernels::map(u.stream, c.f, c.parameter, n, px, out);
  u.read(out, got);
  compare(got, y, c.exact);
  kernels::map_backward(u.stream, c.f, c.parameter, n, of_x ? px : nullptr, of_x ? nullptr : py, pdy, out);
  u.read(out, got);
  compare(got, slope, c.backward_exact);
  kernels::map_backward(u.stream, c.f, c.parameter, n, of_x ? px : nullptr, of_x ? nullptr : py, pdy, pdy);
  u.read(pdy, got);
  compare(got, slope, c.backward_exact);
  kernels::map(u.stream, c.f, c.parameter, n, px, px);
  u.read(px, got);
  compare(got, y, c.exact);
}

TYPED_TEST(elementwise_kernels, maps_equal_those_of_the_cpu_when_functions_and_sizes_vary) {
  const auto d = make_cpu_device("baseline");
  elementwise_over_seeds([&] {
    for (const auto& c : function_cases)
      for (const auto n : elementwise_counts) check_function<TypeParam>(*d, c, n);
  });
}

TYPED_TEST(elementwise_kernels, a_map_covers_all_elements_when_one_pass_of_the_grid_does_not) {
  const auto d = make_cpu_device("baseline");
  elementwise_over_seeds([&] { check_function<TypeParam>(*d, {unary::square, 0, true, true}, beyond_one_grid); });
}

}  // namespace
}  // namespace troupe::vgpu
