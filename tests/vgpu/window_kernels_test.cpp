// Kernels of im2col and col2im on the virtual GPU against the CPU device: equal bits.
#include "ops/cuda/kernels/window.hpp"

#include <gtest/gtest.h>

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
std::vector<T> window_numbers(std::int64_t n, std::uint32_t random) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& x : v) {
    random = random * 1664525U + 1013904223U;
    x = static_cast<T>(static_cast<int>(random >> 16) - 32768) / T(777);
    if ((random >> 8 & 63U) == 0) x = -T(0);
    if ((random >> 8 & 255U) == 1) x = std::numeric_limits<T>::infinity();
    if ((random >> 8 & 255U) == 2) x = std::numeric_limits<T>::quiet_NaN();
  }
  return v;
}

// Checks every image and group, or the last of each only.
template <class T>
void window_agrees(const conv_geometry& g, std::uint64_t seed, bool last_only = false) {
  const auto cpu = make_cpu_device("baseline");
  const auto x = window_numbers<T>(g.batch * g.channels * g.height * g.width, 1);
  const auto col = window_numbers<T>(g.patch() * g.pixels(), 2);
  for (std::int64_t image = last_only ? g.batch - 1 : 0; image < g.batch; ++image)
    for (std::int64_t group = last_only ? g.groups - 1 : 0; group < g.groups; ++group) {
      const tensor cx = cpu_tensor(*cpu, x), ccol = cpu_tensor(*cpu, col);
      tensor columns = tensor::allocate(*cpu, {g.patch() * g.pixels()}, dtype_of<T>), dx = cpu_tensor(*cpu, x);
      cpu->im2col(g, image, group, cx, columns);
      cpu->col2im(g, image, group, ccol, dx);
      device_user gpu(seed);
      T *gx = gpu.filled(x), *gcol = gpu.filled(col), *gdx = gpu.filled(x), *to = gpu.filled(col);
      cuda::kernels::im2col<T>(gpu.stream, g, image, group, gx, to);
      cuda::kernels::col2im<T>(gpu.stream, g, image, group, gcol, gdx);
      expect_bits("im2col", gpu.read(to, col.size()), cpu_values<T>(*cpu, columns));
      expect_bits("col2im", gpu.read(gdx, x.size()), cpu_values<T>(*cpu, dx));
      const auto list = findings();
      EXPECT_TRUE(list.empty()) << list[0];
    }
}
void window_agrees_over_seeds(const conv_geometry& g) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("channels " + std::to_string(g.channels) + " image " + std::to_string(g.height) + "x" + std::to_string(g.width) +
                 " kernel " + std::to_string(g.kernel_h) + "x" + std::to_string(g.kernel_w) + " stride " +
                 std::to_string(g.stride_h) + " seed " + std::to_string(seed));
    window_agrees<float>(g, seed);
    window_agrees<double>(g, seed);
  }
}

conv_geometry window_of(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t kernel, std::int64_t stride,
                        std::int64_t pad, std::int64_t dilation = 1) {
  conv_geometry g{.channels = channels, .height = height, .width = width};
  g.kernel_h = g.kernel_w = kernel, g.stride_h = g.stride_w = stride, g.pad_h = g.pad_w = pad;
  g.dilation_h = g.dilation_w = dilation;
  return g;
}

TEST(window_kernels, equal_the_cpu_when_kernels_are_square) {
  for (const auto& g : {window_of(1, 1, 1, 1, 1, 0), window_of(3, 9, 11, 3, 1, 1), window_of(2, 12, 13, 5, 1, 2),
                        window_of(5, 7, 6, 1, 1, 0), window_of(4, 33, 31, 3, 1, 0)})
    window_agrees_over_seeds(g);
}

TEST(window_kernels, equal_the_cpu_when_kernels_move_by_several_pixels) {
  for (const auto& g : {window_of(3, 9, 11, 3, 2, 1), window_of(2, 23, 27, 11, 4, 2), window_of(5, 8, 6, 1, 2, 0),
                        window_of(2, 10, 10, 2, 3, 0), window_of(1, 4, 4, 3, 2, 3)})
    window_agrees_over_seeds(g);
}

TEST(window_kernels, equal_the_cpu_when_kernels_are_dilated) {
  for (const auto& g : {window_of(2, 9, 11, 3, 1, 2, 2), window_of(2, 13, 12, 3, 2, 1, 3), window_of(1, 16, 15, 4, 3, 0, 2)})
    window_agrees_over_seeds(g);
}

TEST(window_kernels, equal_the_cpu_when_both_axes_differ) {
  auto g = window_of(3, 14, 9, 1, 1, 0);
  g.kernel_h = 4, g.kernel_w = 2, g.stride_h = 3, g.stride_w = 1, g.pad_h = 0, g.pad_w = 2, g.dilation_h = 1, g.dilation_w = 3;
  window_agrees_over_seeds(g);
  g.kernel_h = 1, g.kernel_w = 5, g.stride_h = 1, g.stride_w = 2, g.dilation_h = 2, g.dilation_w = 1;
  window_agrees_over_seeds(g);
}

TEST(window_kernels, change_only_their_image_and_group_when_there_are_several) {
  auto g = window_of(6, 7, 8, 3, 1, 1);
  g.batch = 3, g.groups = 2;
  window_agrees_over_seeds(g);
}

TEST(window_kernels, do_nothing_when_there_are_no_channels) { window_agrees_over_seeds(window_of(0, 5, 5, 3, 1, 1)); }

TEST(window_kernels, equal_the_cpu_when_a_grid_takes_several_passes) {
  const auto g = window_of(1, 1026, 1027, 2, 1, 0);  // more than 4096 blocks of 256 elements
  window_agrees<float>(g, 1, true);
  window_agrees<double>(g, 2, true);
}

}  // namespace
}  // namespace troupe::vgpu
