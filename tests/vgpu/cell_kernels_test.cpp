// The kernels of ops/cuda/kernels/cell.hpp give the results of the CPU device, up to rounding.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/cuda/check.hpp"
#include "ops/cuda/kernels/cell.hpp"
#include "ops/device.hpp"
#include "tests/vgpu/device_user.hpp"

namespace troupe::vgpu {
namespace {

using cuda::check;
namespace kernels = cuda::kernels;

// All tensors of one step; empty ones are absent. Calls of run_cells() change the outputs.
template <class T>
struct cell_values {
  std::vector<T> bias, gates, h_before, c_before, c, h, y;
  std::vector<T> dy, dh, dc, dgates;
};

// Numbers between -4 and 4.
template <class T>
std::vector<T> cell_numbers(std::int64_t n, std::size_t salt) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>((i + 131 * salt) * 7919 % 1009) / T(126) - T(4);
  return v;
}
template <class T>
cell_values<T> cell_input(const cell_spec& s) {
  const std::int64_t states = s.rows * s.units, ys = s.rows == 0 ? 0 : (s.rows - 1) * s.stride + s.units;
  const bool lstm = s.kind == cell_kind::lstm;
  cell_values<T> v;
  v.bias = cell_numbers<T>(s.gates() * s.units, 1);
  v.gates = cell_numbers<T>(s.gates() * states, 2);
  v.h_before = cell_numbers<T>(states, 3);
  v.c_before = cell_numbers<T>(lstm ? states : 0, 4);
  v.c = cell_numbers<T>(lstm ? states : 0, 5);
  v.h = cell_numbers<T>(states, 6);
  v.y = cell_numbers<T>(ys, 7);
  v.dy = cell_numbers<T>(ys, 8);
  v.dh = cell_numbers<T>(states, 9);
  v.dc = cell_numbers<T>(lstm ? states : 0, 10);
  v.dgates = cell_numbers<T>(s.gates() * states, 11);
  return v;
}

// One step forward and backward, on the CPU.
template <class T>
cell_values<T> cells_on_cpu(const cell_spec& s, cell_values<T> v) {
  if (s.rows * s.units == 0) return v;
  const auto d = make_cpu_device("baseline");
  const auto uploaded = [&](const std::vector<T>& from) {
    if (from.empty()) return tensor{};
    auto t = tensor::allocate(*d, {static_cast<std::int64_t>(from.size())}, dtype_of<T>);
    d->upload(from.data(), t);
    return t;
  };
  const auto bias = uploaded(v.bias), h_before = uploaded(v.h_before), c_before = uploaded(v.c_before), dy = uploaded(v.dy);
  auto gates = uploaded(v.gates), c = uploaded(v.c), h = uploaded(v.h), y = uploaded(v.y);
  auto dh = uploaded(v.dh), dc = uploaded(v.dc), dgates = uploaded(v.dgates);
  d->cell_forward(s, bias, gates, h_before, c_before, c, h, y);
  d->cell_backward(s, gates, h_before, h, c_before, c, dy, dh, dc, dgates);
  const auto download = [&](const tensor& t, std::vector<T>& to) {
    if (t) d->download(t, to.data());
  };
  download(gates, v.gates), download(c, v.c), download(h, v.h), download(y, v.y);
  download(dh, v.dh), download(dc, v.dc), download(dgates, v.dgates);
  return v;
}

// The same on the virtual GPU.
template <class T>
cell_values<T> cells_on_gpu(const cell_spec& s, cell_values<T> v) {
  device_user u;
  const T *bias = u.filled(v.bias), *h_before = u.filled(v.h_before), *c_before = u.filled(v.c_before), *dy = u.filled(v.dy);
  T *gates = u.filled(v.gates), *c = u.filled(v.c), *h = u.filled(v.h), *y = u.filled(v.y);
  T *dh = u.filled(v.dh), *dc = u.filled(v.dc), *dgates = u.filled(v.dgates);
  kernels::cell_forward<T>(u.stream, s, bias, gates, h_before, c_before, c, h, y);
  kernels::cell_backward<T>(u.stream, s, gates, h_before, h, c_before, c, dy, dh, dc, dgates);
  u.read(gates, v.gates), u.read(c, v.c), u.read(h, v.h), u.read(y, v.y);
  u.read(dh, v.dh), u.read(dc, v.dc), u.read(dgates, v.dgates);
  return v;
}

// Elements differ by at most 1e-5 (f32) or 1e-12 (f64) of the largest finite magnitude. NaN and
// infinity are at the same places.
template <class T>
void expect_near_cells(const std::vector<T>& got, const std::vector<T>& wanted, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  T most = 0;
  for (const T w : wanted)
    if (std::isfinite(w)) most = std::max(most, std::abs(w));
  const T tolerance = most * (sizeof(T) == 4 ? T(1e-5) : T(1e-12));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool equal = got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i]));
    ASSERT_TRUE(equal || std::abs(got[i] - wanted[i]) <= tolerance) << what << " " << i << ": " << got[i] << ", not " << wanted[i];
  }
}
template <class T>
void expect_cells(const cell_spec& s, const cell_values<T>& in) {
  const auto got = cells_on_gpu(s, in), wanted = cells_on_cpu(s, in);
  expect_near_cells(got.gates, wanted.gates, "gates");
  expect_near_cells(got.c, wanted.c, "c");
  expect_near_cells(got.h, wanted.h, "h");
  expect_near_cells(got.y, wanted.y, "y");
  expect_near_cells(got.dh, wanted.dh, "dh");
  expect_near_cells(got.dc, wanted.dc, "dc");
  expect_near_cells(got.dgates, wanted.dgates, "dgates");
}

constexpr cell_kind cell_kinds[] = {cell_kind::rnn_tanh, cell_kind::rnn_relu, cell_kind::lstm, cell_kind::gru};

template <class T>
class cell_kernels : public testing::Test {};
using cell_types = testing::Types<float, double>;
TYPED_TEST_SUITE(cell_kernels, cell_types);

TYPED_TEST(cell_kernels, both_passes_agree_with_the_cpu) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const cell_kind kind : cell_kinds) {
      for (const cell_spec& s :
           {cell_spec{kind, 0, 5, 5}, cell_spec{kind, 5, 0, 5}, cell_spec{kind, 1, 1, 1}, cell_spec{kind, 3, 17, 17},
            cell_spec{kind, 5, 64, 200}, cell_spec{kind, 300, 1, 3}, cell_spec{kind, 4, 333, 1000}}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", kind " << static_cast<int>(kind) << ", " << s.rows << " x "
                                        << s.units);
        reset(options{.seed = seed});
        expect_cells(s, cell_input<TypeParam>(s));
        const auto list = findings();
        ASSERT_TRUE(list.empty()) << list[0];
      }
    }
  }
}

TYPED_TEST(cell_kernels, nan_and_infinity_propagate_as_on_the_cpu) {
  using limits = std::numeric_limits<TypeParam>;
  for (const cell_kind kind : cell_kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    reset(options{});
    const cell_spec s{kind, 6, 50, 50};
    auto v = cell_input<TypeParam>(s);
    const TypeParam special[] = {limits::quiet_NaN(), limits::infinity(), -limits::infinity(), TypeParam(500), TypeParam(-0.0)};
    for (std::size_t i = 0; i < v.gates.size(); i += 7) v.gates[i] = special[i % 5];
    for (std::size_t i = 0; i < v.h_before.size(); i += 31) v.h_before[i] = special[i % 5];
    for (std::size_t i = 0; i < v.c_before.size(); i += 37) v.c_before[i] = special[i % 5];
    for (std::size_t i = 0; i < v.dy.size(); i += 41) v.dy[i] = special[i % 5];
    expect_cells(s, v);
    const auto list = findings();
    ASSERT_TRUE(list.empty()) << list[0];
  }
}

TYPED_TEST(cell_kernels, a_plain_cell_needs_no_tensors_of_gated_cells) {
  reset(options{});
  const cell_spec s{cell_kind::rnn_tanh, 2, 40, 40};
  auto v = cell_input<TypeParam>(s);
  const auto wanted = cells_on_cpu(s, v);
  device_user u;
  TypeParam *h = u.filled(wanted.h), *dgates = u.filled(v.dgates);
  kernels::cell_backward<TypeParam>(u.stream, s, nullptr, nullptr, h, nullptr, nullptr, u.filled(v.dy), u.filled(v.dh), nullptr,
                                    dgates);
  u.read(dgates, v.dgates);
  expect_near_cells(v.dgates, wanted.dgates, "dgates");
}

// One pass of the largest grid covers 2048 blocks of 256 units.
TYPED_TEST(cell_kernels, results_are_complete_when_threads_repeat) {
  for (const cell_kind kind : {cell_kind::rnn_relu, cell_kind::lstm}) {
    SCOPED_TRACE(static_cast<int>(kind));
    reset(options{.seed = 2});
    const cell_spec s{kind, 1031, 512, 600};
    expect_cells(s, cell_input<TypeParam>(s));
    const auto list = findings();
    ASSERT_TRUE(list.empty()) << list[0];
  }
}

}  // namespace
}  // namespace troupe::vgpu
