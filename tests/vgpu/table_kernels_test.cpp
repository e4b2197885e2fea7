// The kernels of ops/cuda/kernels/table.hpp give the bits of the CPU device.
#include "ops/cuda/kernels/table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "ops/cuda/check.hpp"
#include "tests/vgpu/against_cpu.hpp"
#include "tests/vgpu/device_user.hpp"

namespace troupe::vgpu {
namespace {

using cuda::check;
namespace kernels = cuda::kernels;

// Calls run() with a new virtual GPU for each of three seeds, and expects no findings.
template <class F>
void table_over_seeds(F run) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    reset(options{.seed = seed});
    run();
    const auto list = findings();
    EXPECT_TRUE(list.empty()) << list[0];
  }
}

std::uint32_t next_random(std::uint32_t& state) { return (state = state * 1664525 + 1013904223) >> 8; }

// Numbers between -4 and 4, some of them -0. Their sums depend on the order.
template <class T>
std::vector<T> table_numbers(std::int64_t n, std::uint32_t state) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& x : v) {
    const auto r = next_random(state);
    x = r % 16 == 0 ? T(-0.0) : static_cast<T>(r) / static_cast<T>(1 << 21) - T(4) + static_cast<T>(1e-9) * static_cast<T>(r);
  }
  return v;
}

// Ids from -2 to vocabulary + 1. Every third one is 0, as padding is.
std::vector<std::int32_t> table_ids(std::int64_t rows, std::int64_t vocabulary) {
  std::vector<std::int32_t> v(static_cast<std::size_t>(rows));
  std::uint32_t state = 99;
  for (auto& id : v) {
    const auto r = next_random(state);
    id = r % 3 == 0 ? 0 : static_cast<std::int32_t>(r / 3 % (static_cast<std::uint32_t>(vocabulary) + 4)) - 2;
  }
  if (rows > 9) v[4] = std::numeric_limits<std::int32_t>::max(), v[5] = std::numeric_limits<std::int32_t>::min();
  return v;
}

template <class T>
class table_kernels : public testing::Test {};
using table_types = testing::Types<float, double>;
TYPED_TEST_SUITE(table_kernels, table_types);

struct table_shape {
  std::int64_t rows, vocabulary, length;
};
std::string described(const table_shape& e) {
  return std::to_string(e.rows) + " rows, " + std::to_string(e.vocabulary) + " x " + std::to_string(e.length);
}

TYPED_TEST(table_kernels, gather_rows_has_the_bits_of_the_cpu_when_shapes_vary) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  const table_shape shapes[] = {{0, 3, 4},    {3, 0, 4},    {3, 4, 0},    {1, 1, 1},
                                {77, 10, 33}, {300, 50, 1}, {20, 7, 513}, {5500, 40, 101}};
  table_over_seeds([&] {
    for (const auto& e : shapes) {
      device_user u;
      auto table = table_numbers<T>(e.vocabulary * e.length, 1);
      if (table.size() > 3) table[2] = -std::numeric_limits<T>::quiet_NaN();
      const auto ids = table_ids(e.rows, e.vocabulary);
      const tensor tt = cpu_tensor(*d, shape{e.vocabulary, e.length}, table), ti = cpu_tensor(*d, shape{e.rows}, ids);
      tensor expected = tensor::allocate(*d, shape{e.rows, e.length}, dtype_of<T>);
      d->gather_rows(tt, ti, expected);
      const T* dt = u.filled(table);
      const std::int32_t* di = u.filled(ids);
      T* out = u.memory<T>(expected.count());
      kernels::gather_rows(u.stream, e.rows, e.vocabulary, e.length, dt, di, out);
      EXPECT_TRUE(identical(u.read(out, expected.count()), cpu_values<T>(*d, expected))) << described(e);
    }
  });
}

// The last shapes: several tiles of ids; several blocks of columns; several rows of the table per
// block.
TYPED_TEST(table_kernels, scatter_rows_has_the_bits_of_the_cpu_when_shapes_vary) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  const table_shape shapes[] = {{0, 3, 4},    {3, 0, 4},     {3, 4, 0},     {1, 1, 1},    {77, 10, 33},    {300, 50, 1},
                                {20, 7, 513}, {2500, 5, 40}, {1024, 3, 65}, {90, 9, 300}, {1200, 5000, 3}, {300, 80000, 1}};
  table_over_seeds([&] {
    for (const auto& e : shapes) {
      device_user u;
      const auto x = table_numbers<T>(e.rows * e.length, 2);
      const auto ids = table_ids(e.rows, e.vocabulary);
      const tensor tx = cpu_tensor(*d, shape{e.rows, e.length}, x), ti = cpu_tensor(*d, shape{e.rows}, ids);
      tensor expected = tensor::allocate(*d, shape{e.vocabulary, e.length}, dtype_of<T>);
      d->scatter_rows(tx, ti, expected);
      const T* dx = u.filled(x);
      const std::int32_t* di = u.filled(ids);
      T* table = u.memory<T>(expected.count());
      kernels::scatter_rows(u.stream, e.rows, e.vocabulary, e.length, dx, di, table);
      EXPECT_TRUE(identical(u.read(table, expected.count()), cpu_values<T>(*d, expected))) << described(e);
    }
  });
}

// A table of a resampling. ordered: as of an interpolation, with indices that rise; otherwise every
// entry is random. Some indices are negative.
struct resample_case {
  std::int64_t outer, in, out, inner, taps;
  bool ordered;
};
const resample_case resample_cases[] = {{0, 3, 4, 5, 2, true},     {2, 3, 0, 5, 2, true},   {2, 3, 4, 5, 0, true},
                                        {1, 1, 1, 1, 1, true},     {3, 7, 11, 1, 2, true},  {5, 33, 16, 1, 4, true},
                                        {2, 9, 21, 6, 3, true},    {3, 4, 3, 300, 2, true}, {700, 5, 9, 1, 2, false},
                                        {2, 300, 290, 1, 2, true}, {3, 6, 40, 7, 9, false}, {140000, 3, 2, 2, 1, false},
                                        {3, 50, 301, 2, 1, false}};
struct tap_table {
  std::vector<std::int32_t> index;
  std::vector<double> weight;
};
tap_table taps_of(const resample_case& c) {
  tap_table t;
  std::uint32_t state = 5;
  for (std::int64_t j = 0; j < c.out; ++j)
    for (std::int64_t k = 0; k < c.taps; ++k) {
      const auto r = next_random(state);
      const auto near = std::min(c.in - 1, j * c.in / c.out + k), any = static_cast<std::int64_t>(r / 8) % c.in;
      t.index.push_back(r % 8 == 0 ? -1 : static_cast<std::int32_t>(c.ordered ? near : any));
      t.weight.push_back(static_cast<double>(r) / (1 << 23) - 0.7);
    }
  return t;
}

// The result of one direction on the CPU and on the virtual GPU. Input: x if `forward`, otherwise
// dy.
template <class T>
void check_resample(const resample_case& c, bool forward) {
  const auto d = make_cpu_device("baseline");
  device_user u;
  const auto taps = taps_of(c);
  const auto a = c.outer * c.in * c.inner, b = c.outer * c.out * c.inner;
  resample_geometry g{c.outer, c.in, c.out, c.inner, c.taps, taps.index.data(), taps.weight.data()};
  const auto values = table_numbers<T>(forward ? a : b, 3);
  const tensor from = cpu_tensor(*d, shape{forward ? a : b}, values);
  tensor expected = tensor::allocate(*d, shape{forward ? b : a}, dtype_of<T>);
  forward ? d->resample(g, from, expected) : d->resample_backward(g, from, expected);
  g.index = nullptr, g.weight = nullptr;  // not read
  const T* p = u.filled(values);
  const auto* index = u.filled(taps.index);
  const auto* weight = u.filled(taps.weight);
  T* out = u.memory<T>(expected.count());
  forward ? kernels::resample(u.stream, g, index, weight, p, out) : kernels::resample_backward(u.stream, g, index, weight, p, out);
  EXPECT_TRUE(identical(u.read(out, expected.count()), cpu_values<T>(*d, expected)))
      << c.outer << " x " << c.in << " to " << c.out << " x " << c.inner << ", " << c.taps << " taps";
}

TYPED_TEST(table_kernels, resample_has_the_bits_of_the_cpu_when_shapes_vary) {
  table_over_seeds([] {
    for (const auto& c : resample_cases) check_resample<TypeParam>(c, true);
  });
}

TYPED_TEST(table_kernels, resample_backward_has_the_bits_of_the_cpu_when_shapes_vary) {
  table_over_seeds([] {
    for (const auto& c : resample_cases) check_resample<TypeParam>(c, false);
  });
}

}  // namespace
}  // namespace troupe::vgpu
