#include "ops/cuda/kernels/window.hpp"

#include <algorithm>

#include "ops/cuda/kernel_language.hpp"

namespace troupe::cuda::kernels {
namespace {

constexpr int window_threads = 256;
constexpr std::int64_t window_most_blocks = 4096;

struct window_shape {
  using plain = void;
  std::int64_t channels, height, width, out_h, out_w;  // channels: of the group
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};
window_shape window_shape_of(const conv_geometry& g) {
  return {g.group_channels(), g.height,   g.width, g.out_h(), g.out_w(),    g.kernel_h,  g.kernel_w,
          g.stride_h,         g.stride_w, g.pad_h, g.pad_w,   g.dilation_h, g.dilation_w};
}
// First element of the group's channels in the image.
std::int64_t window_start(const conv_geometry& g, std::int64_t image, std::int64_t group) {
  return (image * g.channels + group * g.group_channels()) * g.height * g.width;
}
unsigned window_blocks(std::int64_t count) {
  return static_cast<unsigned>(std::min((count + window_threads - 1) / window_threads, window_most_blocks));
}

// A thread writes all taps of one channel and output pixel, so neighbours write neighbouring
// elements, and two divisions serve a whole window.
template <class T>
__global__ void __launch_bounds__(window_threads) im2col_kernel(window_shape g, const T* x, T* col) {
  const auto pixels = g.out_h * g.out_w, count = g.channels * pixels;
  const auto step = static_cast<std::int64_t>(gridDim.x) * window_threads;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * window_threads + threadIdx.x; i < count; i += step) {
    const auto c = i / pixels, pixel = i - c * pixels, oy = pixel / g.out_w, ox = pixel - oy * g.out_w;
    const auto top = oy * g.stride_h - g.pad_h, left = ox * g.stride_w - g.pad_w;
    const T* plane = x + c * g.height * g.width;
    T* to = col + c * g.kernel_h * g.kernel_w * pixels + pixel;
    for (std::int64_t a = 0; a < g.kernel_h; ++a) {
      const auto iy = top + a * g.dilation_h;
      const bool inside = iy >= 0 && iy < g.height;
      for (std::int64_t b = 0; b < g.kernel_w; ++b, to += pixels) {
        const auto ix = left + b * g.dilation_w;
        *to = inside && ix >= 0 && ix < g.width ? plane[iy * g.width + ix] : T(0);
      }
    }
  }
}

// Taps a = 0, 1, ... of one axis that reach a pixel are outputs o = (pixel + pad - a dilation) /
// stride in falling order, if the division by the dilation has no remainder. `first` is the largest
// such o that is an output. `taps` is dilation (kernel - 1): a distance of pixel + pad and o stride
// beyond it has no tap.
__device__ std::int64_t window_first(std::int64_t at, std::int64_t stride, std::int64_t out) {
  const auto o = stride == 1 ? at : at / stride;
  return o < out ? o : out - 1;
}
// The tap at a distance, or -1.
__device__ std::int64_t window_tap(std::int64_t distance, std::int64_t dilation) {
  if (dilation == 1) return distance;
  const auto tap = distance / dilation;
  return tap * dilation == distance ? tap : -1;
}

template <class T>
__global__ void __launch_bounds__(window_threads) col2im_kernel(window_shape g, const T* col, T* dx) {
  const auto pixels = g.out_h * g.out_w, plane = g.height * g.width, count = g.channels * plane;
  const auto taps_h = g.dilation_h * (g.kernel_h - 1), taps_w = g.dilation_w * (g.kernel_w - 1);
  const auto step = static_cast<std::int64_t>(gridDim.x) * window_threads;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * window_threads + threadIdx.x; i < count; i += step) {
    const auto row = i / g.width, c = row / g.height;
    const auto at_y = row - c * g.height + g.pad_h, at_x = i - row * g.width + g.pad_w;
    const auto last_y = window_first(at_y, g.stride_h, g.out_h), last_x = window_first(at_x, g.stride_w, g.out_w);
    T sum = dx[i];
    for (auto oy = last_y; oy >= 0 && at_y - oy * g.stride_h <= taps_h; --oy) {
      const auto a = window_tap(at_y - oy * g.stride_h, g.dilation_h);
      if (a < 0) continue;
      for (auto ox = last_x; ox >= 0 && at_x - ox * g.stride_w <= taps_w; --ox) {
        const auto b = window_tap(at_x - ox * g.stride_w, g.dilation_w);
        if (b >= 0) sum += col[((c * g.kernel_h + a) * g.kernel_w + b) * pixels + oy * g.out_w + ox];
      }
    }
    dx[i] = sum;
  }
}

}  // namespace

template <class T>
void im2col(cudaStream_t s, const conv_geometry& g, std::int64_t image, std::int64_t group, const T* x, T* col) {
  const auto count = g.group_channels() * g.pixels();
  if (count == 0 || g.patch() == 0) return;
  launch(im2col_kernel<T>, window_blocks(count), window_threads, 0, s, window_shape_of(g), x + window_start(g, image, group), col);
}

template <class T>
void col2im(cudaStream_t s, const conv_geometry& g, std::int64_t image, std::int64_t group, const T* col, T* dx) {
  const auto count = g.group_channels() * g.height * g.width;
  if (count == 0 || g.patch() * g.pixels() == 0) return;
  launch(col2im_kernel<T>, window_blocks(count), window_threads, 0, s, window_shape_of(g), col, dx + window_start(g, image, group));
}

template void im2col(cudaStream_t, const conv_geometry&, std::int64_t, std::int64_t, const float*, float*);
template void im2col(cudaStream_t, const conv_geometry&, std::int64_t, std::int64_t, const double*, double*);
template void col2im(cudaStream_t, const conv_geometry&, std::int64_t, std::int64_t, const float*, float*);
template void col2im(cudaStream_t, const conv_geometry&, std::int64_t, std::int64_t, const double*, double*);

}  // namespace troupe::cuda::kernels
