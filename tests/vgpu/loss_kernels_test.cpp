// The kernels of ops/cuda/kernels/loss.hpp agree with the CPU device.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "ops/cuda/check.hpp"
#include "ops/cuda/kernels/loss.hpp"
#include "ops/device.hpp"
#include "tests/vgpu/against_cpu.hpp"
#include "tests/vgpu/device_user.hpp"

namespace troupe::vgpu {
namespace {

using cuda::check;
namespace kernels = cuda::kernels;

// Numbers between `low` and `high`, a few of them equal.
template <class T>
std::vector<T> loss_numbers(std::int64_t n, std::uint32_t seed, T low, T high) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& e : v) seed = seed * 1664525u + 1013904223u, e = low + (high - low) * static_cast<T>(seed >> 20) / T(1 << 12);
  return v;
}
// Labels of `classes` classes; every fifth is padding.
std::vector<std::int32_t> loss_labels(std::int64_t rows, std::int64_t classes) {
  std::vector<std::int32_t> v(static_cast<std::size_t>(rows));
  for (std::size_t r = 0; r < v.size(); ++r)
    v[r] = r % 5 == 3 ? -1 : static_cast<std::int32_t>(static_cast<std::int64_t>(r * 7) % std::max<std::int64_t>(classes, 2));
  return v;
}

struct softmax_shape {
  std::int64_t outer, classes, inner;
};
constexpr softmax_shape softmax_shapes[] = {{0, 3, 1},   {2, 0, 4},    {1, 1, 1},    {5, 10, 1}, {70, 3, 1},
                                            {9, 33, 1},  {3, 1024, 1}, {2, 1025, 1}, {1, 1, 2},  {3, 10, 49},
                                            {2, 4, 300}, {600, 2, 2},  {1, 70, 100}};
// Rows and classes of losses: short rows (a warp each) and long ones (a block each), and several
// blocks of 2048 elements.
struct loss_shape {
  std::int64_t rows, classes;
};
constexpr loss_shape loss_shapes[] = {{0, 3},   {1, 1},   {3, 1},    {5, 2},    {8, 10},  {9, 10},
                                      {40, 33}, {300, 8}, {5, 1024}, {3, 1030}, {5000, 1}};

// Calls test(shape) with a new virtual GPU for each seed and shape. There must be no findings.
template <class S, std::size_t N, class F>
void for_loss_shapes(const S (&shapes)[N], F test) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    for (std::size_t i = 0; i < N; ++i) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", shape " << i);
      reset(options{.seed = seed});
      test(shapes[i]);
      const auto list = findings();
      ASSERT_TRUE(list.empty()) << list[0];
    }
}

template <class T>
class loss_kernels : public testing::Test {};
using loss_types = testing::Types<float, double>;
TYPED_TEST_SUITE(loss_kernels, loss_types);

template <class T>
void expect_softmax_of_cpu(device& d, const softmax_shape& s, const std::vector<T>& x) {
  device_user u;
  const auto n = static_cast<std::int64_t>(x.size());
  auto* y = u.memory<T>(n);
  kernels::softmax(u.stream, s.outer, s.classes, s.inner, u.filled(x), y);
  if (n == 0) return;
  auto want = tensor::allocate(d, {n}, dtype_of<T>);
  d.softmax(s.outer, s.classes, s.inner, cpu_tensor(d, {n}, x), want);
  expect_close("softmax", u.read(y, n), cpu_values<T>(d, want));
}

TYPED_TEST(loss_kernels, softmax_equals_the_cpu) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for_loss_shapes(softmax_shapes, [&](const softmax_shape& s) {
    expect_softmax_of_cpu(*d, s, loss_numbers<T>(s.outer * s.classes * s.inner, 1, T(-9), T(12)));
  });
}

TYPED_TEST(loss_kernels, softmax_equals_the_cpu_when_scores_are_large_or_not_finite) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  constexpr T infinite = std::numeric_limits<T>::infinity();
  for (const auto& s : {softmax_shape{6, 40, 1}, softmax_shape{6, 1500, 1}, softmax_shape{1, 40, 6}}) {
    reset({});
    auto x = loss_numbers<T>(s.outer * s.classes * s.inner, 2, T(-1000), T(1000));
    const auto at = [&](std::int64_t row, std::int64_t c) -> T& {  // x of this row or column
      return x[static_cast<std::size_t>(s.inner == 1 ? row * s.classes + c : c * s.inner + row)];
    };
    at(1, 37) = std::numeric_limits<T>::quiet_NaN();
    at(2, 39) = infinite;
    at(3, 0) = -infinite;
    for (std::int64_t c = 0; c < s.classes; ++c) at(4, c) = -infinite;
    expect_softmax_of_cpu(*d, s, x);
    EXPECT_TRUE(findings().empty());
  }
}

TYPED_TEST(loss_kernels, softmax_backward_equals_the_cpu) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for_loss_shapes(softmax_shapes, [&](const softmax_shape& s) {
    const auto n = s.outer * s.classes * s.inner;
    const auto y = loss_numbers<T>(n, 3, T(0), T(1)), dy = loss_numbers<T>(n, 4, T(-1), T(2));
    device_user u;
    auto* dx = u.memory<T>(n);
    kernels::softmax_backward(u.stream, s.outer, s.classes, s.inner, u.filled(y), u.filled(dy), dx);
    if (n == 0) return;
    auto want = tensor::allocate(*d, {n}, dtype_of<T>);
    d->softmax_backward(s.outer, s.classes, s.inner, cpu_tensor(*d, {n}, y), cpu_tensor(*d, {n}, dy), want);
    if (s.inner > 1)
      expect_bits("dx", u.read(dx, n), cpu_values<T>(*d, want));
    else
      expect_close("dx", u.read(dx, n), cpu_values<T>(*d, want));
  });
}

// targets: of T, or labels.
template <class T, class Targets>
void expect_pointwise_loss_of_cpu(device& d, pointwise f, const loss_shape& s, const std::vector<T>& x, const Targets& targets) {
  device_user u;
  const auto n = s.rows * s.classes;
  auto *slope = u.memory<T>(n), *loss = u.memory<T>(1);
  kernels::pointwise_loss(u.stream, f, s.rows, s.classes, u.filled(x), u.filled(targets), slope, loss,
                          u.memory<double>(kernels::loss_scratch(s.rows, s.classes)));
  const shape dims{s.rows, s.classes};
  auto want = tensor::allocate(d, dims, dtype_of<T>), want_loss = tensor::allocate(d, {1}, dtype_of<T>);
  constexpr bool labelled = std::is_same_v<Targets, std::vector<std::int32_t>>;
  d.pointwise_loss(f, cpu_tensor(d, dims, x), cpu_tensor(d, labelled ? shape{s.rows} : dims, targets), want, want_loss);
  if (f == pointwise::sigmoid)
    expect_close("slope", u.read(slope, n), cpu_values<T>(d, want));
  else
    expect_bits("slope", u.read(slope, n), cpu_values<T>(d, want));
  expect_close("loss", u.read(loss, 1), cpu_values<T>(d, want_loss));
}
constexpr pointwise pointwise_losses[] = {pointwise::sigmoid, pointwise::squared, pointwise::hinge_1, pointwise::hinge_2};

TYPED_TEST(loss_kernels, pointwise_loss_equals_the_cpu_for_targets) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for_loss_shapes(loss_shapes, [&](const loss_shape& s) {
    const auto n = s.rows * s.classes;
    for (const auto f : pointwise_losses)
      expect_pointwise_loss_of_cpu(*d, f, s, loss_numbers<T>(n, 5, T(-3), T(3)), loss_numbers<T>(n, 6, T(-1), T(1)));
  });
}

TYPED_TEST(loss_kernels, pointwise_loss_equals_the_cpu_for_labels) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for_loss_shapes(loss_shapes, [&](const loss_shape& s) {
    for (const auto f : pointwise_losses)
      expect_pointwise_loss_of_cpu(*d, f, s, loss_numbers<T>(s.rows * s.classes, 7, T(-3), T(3)), loss_labels(s.rows, s.classes));
  });
}

TYPED_TEST(loss_kernels, pointwise_loss_equals_the_cpu_when_numbers_are_not_finite) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  const loss_shape s{4, 3};
  for (const T v : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity()})
    for (const auto f : pointwise_losses) {
      reset({});
      auto x = loss_numbers<T>(12, 8, T(-200), T(200));
      x[5] = v;
      expect_pointwise_loss_of_cpu(*d, f, s, x, loss_labels(4, 3));
      expect_pointwise_loss_of_cpu(*d, f, s, x, loss_numbers<T>(12, 9, T(-1), T(1)));
      EXPECT_TRUE(findings().empty());
    }
}

template <class T>
void expect_softmax_loss_of_cpu(device& d, const loss_shape& s, const std::vector<T>& x, const std::vector<std::int32_t>& labels,
                                double smoothing = 0.0, const std::vector<T>& weights = {}) {
  device_user u;
  const auto n = s.rows * s.classes;
  auto *probability = u.memory<T>(n), *loss = u.memory<T>(1), *dx = u.memory<T>(n);
  auto* scratch = u.memory<double>(kernels::loss_scratch(s.rows, s.classes));
  const auto* on_gpu = u.filled(labels);
  const T* by_class = weights.empty() ? nullptr : u.filled(weights);
  const auto weights_on_cpu = weights.empty() ? tensor() : cpu_tensor(d, {s.classes}, weights);
  kernels::softmax_loss(u.stream, smoothing, by_class, s.rows, s.classes, u.filled(x), on_gpu, probability, loss, scratch);
  const shape dims{s.rows, s.classes};
  const auto on_cpu = cpu_tensor(d, {s.rows}, labels), dloss = cpu_tensor(d, {1}, std::vector<T>{T(0.7)});
  auto want = tensor::allocate(d, dims, dtype_of<T>), want_loss = tensor::allocate(d, {1}, dtype_of<T>);
  auto want_dx = tensor::allocate(d, dims, dtype_of<T>);
  d.softmax_loss(smoothing, weights_on_cpu, cpu_tensor(d, dims, x), on_cpu, want, want_loss);
  expect_close("probability", u.read(probability, n), cpu_values<T>(d, want));
  expect_close("loss", u.read(loss, 1), cpu_values<T>(d, want_loss));
  d.softmax_loss_backward(smoothing, weights_on_cpu, want, on_cpu, dloss, want_dx);
  kernels::softmax_loss_backward(u.stream, smoothing, by_class, s.rows, s.classes, u.filled(cpu_values<T>(d, want)), on_gpu,
                                 u.filled(std::vector<T>{T(0.7)}), dx, scratch);
  if (weights.empty())
    expect_bits("dx", u.read(dx, n), cpu_values<T>(d, want_dx));
  else
    expect_close("dx", u.read(dx, n), cpu_values<T>(d, want_dx));
}

TYPED_TEST(loss_kernels, softmax_loss_and_its_backward_equal_the_cpu) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for_loss_shapes(loss_shapes, [&](const loss_shape& s) {
    auto labels = loss_labels(s.rows, s.classes);
    if (s.classes == 1)
      for (auto& l : labels) l = std::min(l, 0);
    for (const double smoothing : {0.0, 0.1, 1.0})
      expect_softmax_loss_of_cpu(*d, s, loss_numbers<T>(s.rows * s.classes, 10, T(-60), T(60)), labels, smoothing);
  });
}

TYPED_TEST(loss_kernels, softmax_loss_with_weights_equals_the_cpu) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for_loss_shapes(loss_shapes, [&](const loss_shape& s) {
    auto labels = loss_labels(s.rows, s.classes);
    if (s.classes == 1)
      for (auto& l : labels) l = std::min(l, 0);
    auto weights = loss_numbers<T>(s.classes, 14, T(0), T(3));
    if (s.classes > 2) weights[1] = T(0);
    for (const double smoothing : {0.0, 0.1, 1.0})
      expect_softmax_loss_of_cpu(*d, s, loss_numbers<T>(s.rows * s.classes, 10, T(-6), T(6)), labels, smoothing, weights);
  });
}

TYPED_TEST(loss_kernels, softmax_loss_is_nan_when_a_label_is_beyond_the_classes) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for (const auto& s : {loss_shape{6, 10}, loss_shape{6, 1500}}) {
    reset({});
    auto labels = loss_labels(s.rows, s.classes);
    labels[1] = static_cast<std::int32_t>(s.classes);
    expect_softmax_loss_of_cpu(*d, s, loss_numbers<T>(s.rows * s.classes, 11, T(-6), T(6)), labels, 0.1);
    EXPECT_TRUE(findings().empty());
  }
}

TYPED_TEST(loss_kernels, losses_are_zero_when_all_rows_are_padding) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  reset({});
  const loss_shape s{7, 4};
  const auto x = loss_numbers<T>(28, 12, T(-6), T(6));
  const std::vector<std::int32_t> padding(7, -2);
  expect_softmax_loss_of_cpu(*d, s, x, padding);
  expect_softmax_loss_of_cpu(*d, s, x, padding, 0.1);
  for (const auto f : pointwise_losses) expect_pointwise_loss_of_cpu(*d, f, s, x, padding);
  EXPECT_TRUE(findings().empty());
}

template <class T>
T top_k_on_gpu(device& d, std::int64_t k, const loss_shape& s, const std::vector<T>& x, const std::vector<std::int32_t>& labels) {
  device_user u;
  auto* out = u.memory<T>(1);
  kernels::top_k(u.stream, k, s.rows, s.classes, u.filled(x), u.filled(labels), out,
                 u.memory<double>(kernels::loss_scratch(s.rows, s.classes)));
  auto want = tensor::allocate(d, {1}, dtype_of<T>);
  d.top_k(k, cpu_tensor(d, {s.rows, s.classes}, x), cpu_tensor(d, {s.rows}, labels), want);
  const T got = u.read(out, 1)[0];
  EXPECT_EQ(got, static_cast<T>(d.scalar(want)));
  return got;
}

TYPED_TEST(loss_kernels, top_k_equals_the_cpu) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  for_loss_shapes(loss_shapes, [&](const loss_shape& s) {
    // Integers, so that many scores are equal.
    auto x = loss_numbers<T>(s.rows * s.classes, 13, T(0), T(9));
    for (auto& v : x) v = std::floor(v);
    auto labels = loss_labels(s.rows, s.classes);
    if (s.rows > 2) labels[2] = static_cast<std::int32_t>(s.classes);  // counts as wrong
    for (const std::int64_t k : {1, 3, 20}) top_k_on_gpu(*d, k, s, x, labels);
  });
}

TYPED_TEST(loss_kernels, top_k_ranks_lower_classes_and_nan_first_when_scores_tie) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  reset({});
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  const std::vector<T> x{1, 1, 0, 1, 1, 0, nan, 0, 2, 0, nan, 1};
  EXPECT_EQ(top_k_on_gpu(*d, 1, {4, 3}, x, {0, 1, 2, 1}), T(0.25));
  EXPECT_EQ(top_k_on_gpu(*d, 2, {4, 3}, x, {0, 1, 2, 1}), T(1));
  EXPECT_TRUE(findings().empty());
}

}  // namespace
}  // namespace troupe::vgpu
