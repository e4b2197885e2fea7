// Kernels of pooling on the virtual GPU against the CPU device: equal bits.
#include "ops/cuda/kernels/pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/cuda/check.hpp"
#include "ops/device.hpp"
#include "tests/vgpu/against_cpu.hpp"
#include "tests/vgpu/device_user.hpp"

namespace troupe::vgpu {
namespace {

namespace kernels = cuda::kernels;

// Numbers with many ties; with `special` also NaN, infinities and -0.
template <class T>
std::vector<T> pool_numbers(std::int64_t n, bool special, std::uint32_t random) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& x : v) {
    random = random * 1664525U + 1013904223U;
    x = static_cast<T>(static_cast<int>(random >> 24) - 128) / T(3);
    if (random >> 30 == 1) x = std::floor(x / T(16));
    const auto kind = random >> 8 & 31U;
    if (special && kind == 0) x = std::numeric_limits<T>::quiet_NaN();
    if (special && kind == 1) x = std::numeric_limits<T>::infinity();
    if (special && (kind == 2 || kind == 3)) x = -std::numeric_limits<T>::infinity();
    if (special && kind == 4) x = -T(0);
  }
  return v;
}

template <class T>
void pool_agrees(const pool_geometry& g, bool special, std::uint64_t seed) {
  const auto cpu = make_cpu_device("baseline");
  const auto in = g.planes * g.height * g.width, out = g.planes * g.out_h * g.out_w;
  const auto ins = static_cast<std::size_t>(in), outs = static_cast<std::size_t>(out);
  const auto x = pool_numbers<T>(in, special, 1), dy = pool_numbers<T>(out, special, 2);
  const tensor cx = cpu_tensor(*cpu, x), cdy = cpu_tensor(*cpu, dy);
  tensor cy = tensor::allocate(*cpu, {out}, dtype_of<T>), at = tensor::allocate(*cpu, {out}, dtype::i32);
  tensor average = tensor::allocate(*cpu, {out}, dtype_of<T>), dx = tensor::allocate(*cpu, {in}, dtype_of<T>);
  tensor share = tensor::allocate(*cpu, {in}, dtype_of<T>);
  cpu->max_pool(g, cx, cy, at);
  cpu->max_pool_backward(g, cdy, at, dx);
  cpu->avg_pool(g, cx, average);
  cpu->avg_pool_backward(g, cdy, share);

  device_user gpu(seed);
  const T *gx = gpu.filled(x), *gdy = gpu.filled(dy);
  T *gy = gpu.memory<T>(outs), *ga = gpu.memory<T>(outs), *gdx = gpu.memory<T>(ins), *gs = gpu.memory<T>(ins);
  auto* index = gpu.memory<std::int32_t>(outs);
  kernels::max_pool(gpu.stream, g, gx, gy, index);
  kernels::max_pool_backward(gpu.stream, g, gdy, index, gdx);
  kernels::avg_pool(gpu.stream, g, gx, ga);
  kernels::avg_pool_backward(gpu.stream, g, gdy, gs);
  expect_bits("max", gpu.read(gy, outs), cpu_values<T>(*cpu, cy));
  expect_bits("index", gpu.read(index, outs), cpu_values<std::int32_t>(*cpu, at));
  expect_bits("max backward", gpu.read(gdx, ins), cpu_values<T>(*cpu, dx));
  expect_bits("average", gpu.read(ga, outs), cpu_values<T>(*cpu, average));
  expect_bits("average backward", gpu.read(gs, ins), cpu_values<T>(*cpu, share));
  const auto list = findings();
  EXPECT_TRUE(list.empty()) << list[0];
}

// Extents of the output as the layer computes them (ops/layers/pooling.cpp).
pool_geometry pool_of(std::int64_t planes, std::int64_t height, std::int64_t width, std::int64_t kernel, std::int64_t stride,
                      std::int64_t pad = 0, bool up = true, bool count_padding = true) {
  pool_geometry g{.planes = planes, .height = height, .width = width};
  g.kernel_h = g.kernel_w = kernel, g.stride_h = g.stride_w = stride, g.pad_h = g.pad_w = pad, g.count_padding = count_padding;
  const auto extent = [&](std::int64_t n) {
    auto out = (n + 2 * pad - kernel + (up ? stride - 1 : 0)) / stride + 1;
    return up && (out - 1) * stride >= n + pad ? out - 1 : out;
  };
  g.out_h = extent(height), g.out_w = extent(width);
  return g;
}
// The whole plane as one window.
pool_geometry pool_whole(std::int64_t planes, std::int64_t height, std::int64_t width) {
  return {.planes = planes, .height = height, .width = width, .kernel_h = height, .kernel_w = width};
}

void pool_agrees_over_seeds(const pool_geometry& g) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    for (const bool special : {false, true}) {
      SCOPED_TRACE("image " + std::to_string(g.height) + "x" + std::to_string(g.width) + " kernel " + std::to_string(g.kernel_h) +
                   " stride " + std::to_string(g.stride_h) + " pad " + std::to_string(g.pad_h) + " seed " + std::to_string(seed) +
                   (special ? " special" : ""));
      pool_agrees<float>(g, special, seed);
      pool_agrees<double>(g, special, seed);
    }
}

TEST(pool_kernels, equal_the_cpu_when_windows_are_2_or_3_by_2) {
  for (const std::int64_t kernel : {2, 3})
    for (const std::int64_t width : {3, 4, 7, 12, 13, 35, 66})
      for (const bool up : {true, false}) pool_agrees_over_seeds(pool_of(3, 5 + width % 2, width, kernel, 2, 0, up));
}

TEST(pool_kernels, equal_the_cpu_when_windows_overlap_or_leave_gaps) {
  for (const auto& g : {pool_of(2, 9, 11, 3, 1), pool_of(2, 8, 7, 2, 3), pool_of(1, 13, 9, 5, 2), pool_of(3, 6, 6, 1, 1),
                        pool_of(5, 10, 17, 4, 3), pool_of(2, 33, 9, 5, 1)})
    pool_agrees_over_seeds(g);
}

TEST(pool_kernels, equal_the_cpu_when_images_are_padded) {
  for (const bool count_padding : {true, false})
    for (const auto& g : {pool_of(2, 5, 4, 3, 1, 1, true, count_padding), pool_of(1, 5, 4, 2, 2, 1, true, count_padding),
                          pool_of(3, 7, 8, 3, 2, 1, false, count_padding), pool_of(2, 9, 10, 5, 3, 2, true, count_padding)})
      pool_agrees_over_seeds(g);
}

TEST(pool_kernels, equal_the_cpu_when_windows_are_oblong) {
  auto g = pool_whole(2, 7, 9);
  g.kernel_h = 2, g.kernel_w = 3, g.stride_h = 1, g.stride_w = 4, g.pad_h = 1, g.pad_w = 2, g.out_h = 8, g.out_w = 3;
  pool_agrees_over_seeds(g);
  g = pool_whole(2, 3, 40);
  g.kernel_h = 1, g.kernel_w = 33, g.stride_w = 8, g.out_h = 3, g.out_w = 1;
  pool_agrees_over_seeds(g);
}

TEST(pool_kernels, equal_the_cpu_when_both_axes_differ) {
  std::mt19937_64 random(5);
  const auto upto = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)) + 1; };
  for (int k = 0; k < 30; ++k) {
    const auto height = upto(12), width = upto(40), rows = upto(std::min<std::int64_t>(4, height)),
               columns = upto(std::min<std::int64_t>(5, width));
    const auto count_padding = random() % 2 == 0;
    // Height and width of two square windows.
    const auto down = pool_of(2, height, width, rows, upto(3), upto(rows) - 1, random() % 2 == 0, count_padding);
    const auto across = pool_of(2, height, width, columns, upto(3), upto(columns) - 1, random() % 2 == 0, count_padding);
    auto g = down;
    g.kernel_w = across.kernel_w, g.stride_w = across.stride_w, g.pad_w = across.pad_w, g.out_w = across.out_w;
    pool_agrees_over_seeds(g);
  }
}

TEST(pool_kernels, equal_the_cpu_when_a_window_is_the_whole_image) {
  for (const auto& g : {pool_whole(70, 7, 7), pool_whole(3, 2, 65), pool_whole(2, 40, 33), pool_whole(9, 6, 1), pool_whole(5, 1, 1),
                        pool_whole(11, 3, 3)})
    pool_agrees_over_seeds(g);
}

TEST(pool_kernels, equal_the_cpu_when_large_windows_are_apart) {
  for (const auto& g : {pool_of(2, 20, 41, 8, 8), pool_of(1, 30, 90, 35, 20, 3, true, false)}) pool_agrees_over_seeds(g);
}

TEST(pool_kernels, do_nothing_when_there_are_no_planes) { pool_agrees_over_seeds(pool_of(0, 6, 6, 2, 2)); }

TEST(pool_kernels, equal_the_cpu_when_a_grid_takes_several_passes) {
  const auto g = pool_of(2, 770, 771, 2, 1);  // more than 4096 blocks of 256 elements
  pool_agrees<float>(g, false, 1);
  pool_agrees<double>(g, true, 2);
  pool_agrees<float>(pool_of(3, 512, 514, 3, 2), true, 3);
}

TEST(pool_kernels, equal_the_cpu_when_warps_take_several_passes) {
  const auto g = pool_whole(33000, 16, 2);  // more than 4096 blocks of 8 windows
  pool_agrees<float>(g, false, 1);
  pool_agrees<double>(g, true, 2);
}

}  // namespace
}  // namespace troupe::vgpu
