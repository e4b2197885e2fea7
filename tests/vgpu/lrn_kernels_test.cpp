// Kernels of local response normalisation on the virtual GPU against the CPU device.
#include "ops/cuda/kernels/lrn.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/cuda/check.hpp"
#include "ops/device.hpp"
#include "tests/vgpu/against_cpu.hpp"
#include "tests/vgpu/device_user.hpp"

namespace troupe::vgpu {
namespace {

template <class T>
std::vector<T> lrn_numbers(std::int64_t n, std::uint32_t random) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& x : v) {
    random = random * 1664525U + 1013904223U;
    x = static_cast<T>(static_cast<int>(random >> 16) - 32768) / T(12345);
  }
  return v;
}

// Compares elements up to `tolerance` of the largest magnitude. A NaN equals a NaN only.
template <class T>
void lrn_near(const char* what, const std::vector<T>& got, const std::vector<T>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (const T v : want)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(static_cast<double>(v)));
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    ASSERT_LE(std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])), tolerance * largest) << what << " " << i;
  }
}

template <class T>
void lrn_agrees(const lrn_geometry& g, std::uint64_t seed, bool with_nan = false) {
  const auto n = g.batch * g.channels * g.height * g.width;
  const auto count = static_cast<std::size_t>(n);
  auto x = lrn_numbers<T>(n, 1);
  const auto dy = lrn_numbers<T>(n, 2);
  if (with_nan) x[count / 2] = std::numeric_limits<T>::quiet_NaN();
  const auto cpu = make_cpu_device("baseline");
  const tensor cx = cpu_tensor(*cpu, x), cdy = cpu_tensor(*cpu, dy);
  tensor y = tensor::allocate(*cpu, {n}, dtype_of<T>), scale = tensor::allocate(*cpu, {n}, dtype_of<T>);
  tensor dx = tensor::allocate(*cpu, {n}, dtype_of<T>);
  cpu->lrn(g, cx, y, scale);
  cpu->lrn_backward(g, cx, scale, cdy, dx);

  device_user gpu(seed);
  const T *gx = gpu.filled(x), *gdy = gpu.filled(dy);
  T *gy = gpu.memory<T>(count), *gscale = gpu.memory<T>(count), *gdx = gpu.memory<T>(count);
  cuda::kernels::lrn<T>(gpu.stream, g, gx, gy, gscale);
  cuda::kernels::lrn_backward<T>(gpu.stream, g, gx, gscale, gdy, gdx);
  const double tolerance = sizeof(T) == 4 ? 1e-5 : 1e-12;
  const bool same_order = g.across_channels || g.size <= 9;
  lrn_near("scale", gpu.read(gscale, count), cpu_values<T>(*cpu, scale), same_order ? 0 : tolerance);
  lrn_near("y", gpu.read(gy, count), cpu_values<T>(*cpu, y), tolerance);
  lrn_near("dx", gpu.read(gdx, count), cpu_values<T>(*cpu, dx), tolerance);
  const auto list = findings();
  EXPECT_TRUE(list.empty()) << list[0];
}

void lrn_agrees_over_seeds(const lrn_geometry& g) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("channels " + std::to_string(g.channels) + " image " + std::to_string(g.height) + "x" + std::to_string(g.width) +
                 " size " + std::to_string(g.size) + " beta " + std::to_string(g.beta) + " seed " + std::to_string(seed));
    lrn_agrees<float>(g, seed);
    lrn_agrees<double>(g, seed);
  }
}
lrn_geometry lrn_of(std::int64_t batch, std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t size,
                    bool across_channels) {
  return {.batch = batch, .channels = channels, .height = height, .width = width, .size = size, .across_channels = across_channels};
}

TEST(lrn_kernels, agree_with_the_cpu_when_windows_cross_channels) {
  for (const auto& g : {lrn_of(2, 7, 3, 4, 5, true), lrn_of(1, 19, 6, 7, 5, true), lrn_of(3, 8, 1, 1, 3, true),
                        lrn_of(1, 1, 1, 1, 5, true), lrn_of(2, 16, 5, 13, 1, true)})
    lrn_agrees_over_seeds(g);
}

TEST(lrn_kernels, agree_with_the_cpu_when_windows_are_within_a_channel) {
  for (const auto& g : {lrn_of(2, 2, 4, 3, 3, false), lrn_of(1, 3, 17, 35, 3, false), lrn_of(2, 1, 9, 70, 5, false),
                        lrn_of(1, 2, 5, 1, 3, false), lrn_of(1, 1, 20, 40, 9, false), lrn_of(1, 2, 8, 32, 1, false)})
    lrn_agrees_over_seeds(g);
}

TEST(lrn_kernels, agree_with_the_cpu_when_windows_exceed_the_tensor) {
  for (const auto& g : {lrn_of(2, 3, 2, 2, 9, true), lrn_of(1, 2, 3, 4, 11, false), lrn_of(1, 1, 1, 1, 7, false)})
    lrn_agrees_over_seeds(g);
}

TEST(lrn_kernels, agree_with_the_cpu_when_a_window_takes_several_pieces) {
  for (const auto& g : {lrn_of(1, 50, 2, 20, 21, true), lrn_of(1, 40, 1, 3, 79, true), lrn_of(1, 1, 30, 90, 21, false)})
    lrn_agrees_over_seeds(g);
}

TEST(lrn_kernels, agree_with_the_cpu_when_constants_are_not_the_usual_ones) {
  for (const bool across : {true, false})
    for (const double beta : {0.0, 0.5, 0.75, 1.0, 1.3}) {
      auto g = lrn_of(1, 6, 7, 5, 3, across);
      g.beta = beta, g.alpha = 0.3, g.k = 2.0;
      lrn_agrees_over_seeds(g);
    }
}

TEST(lrn_kernels, give_nan_in_the_same_elements_when_an_input_is_nan) {
  for (const bool across : {true, false})
    for (const double beta : {0.75, 0.6}) {
      auto g = lrn_of(1, 9, 11, 10, 5, across);
      g.beta = beta;
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        lrn_agrees<float>(g, seed, true);
        lrn_agrees<double>(g, seed, true);
      }
    }
}

TEST(lrn_kernels, do_nothing_when_the_batch_is_empty) {
  lrn_agrees_over_seeds(lrn_of(0, 3, 4, 5, 5, true));
  lrn_agrees_over_seeds(lrn_of(0, 3, 4, 5, 3, false));
}

TEST(lrn_kernels, agree_with_the_cpu_when_a_grid_takes_several_passes) {
  lrn_agrees<float>(lrn_of(4200, 1, 1, 2, 5, true), 1);  // more than 4096 tiles
  lrn_agrees<double>(lrn_of(30, 140, 2, 2, 3, false), 2);
}

}  // namespace
}  // namespace troupe::vgpu
