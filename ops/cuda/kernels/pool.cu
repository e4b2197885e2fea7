#include "ops/cuda/kernels/pool.hpp"

#include <algorithm>
#include <type_traits>

#include "ops/cuda/kernel_language.hpp"

namespace troupe::cuda::kernels {
namespace {

constexpr int pool_threads = 256;
constexpr std::int64_t pool_most_blocks = 4096;

// Division by a number that is known before the launch. Dividends below 2^31 take a product and a
// shift: with l = ceil(log2(number)), factor = ceil(2^(32 + l) / number) is at most 2^33, so the
// product fits into 64 bits. Granlund and Montgomery 1994.
struct pool_divisor {
  std::int64_t number = 1;
  std::uint64_t factor = 0;  // 0: number >= 2^31
  int shift = 32;
};
pool_divisor pool_divisor_of(std::int64_t number) {
  pool_divisor d{.number = number};
  if (number <= 0 || number >= std::int64_t{1} << 31) return d;  // 0: there are no elements to divide
  while (std::int64_t{1} << (d.shift - 32) < number) ++d.shift;
  const auto n = static_cast<std::uint64_t>(number), power = std::uint64_t{1} << d.shift;
  d.factor = power / n + (power % n != 0 ? 1 : 0);
  return d;
}
// a / d.number for a >= 0.
__device__ std::int64_t pool_quotient(std::int64_t a, const pool_divisor& d) {
  if (a < std::int64_t{1} << 31) return static_cast<std::int64_t>((static_cast<std::uint64_t>(a) * d.factor) >> d.shift);
  return a / d.number;
}

// The geometry with what a launch derives from it.
struct pool_plan : pool_geometry {
  using plain = void;
  std::int64_t count = 0;       // elements of the output tensor
  pool_divisor rows, columns;   // extents of the output tensor
  pool_divisor step_h, step_w;  // strides
  // Order of the CPU. max: if a window has several NaN, the last one in row order wins, otherwise
  // the last one in column order. avg backward: shares are added in the order of the windows,
  // otherwise by rows of windows, each summed from right to left.
  bool window_order = false;
};

// The CPU has special kernels for these windows in f32 (ops/cpu/pool2.inl), with another order.
template <class T>
bool pool_in_window_order(const pool_geometry& g) {
  return std::is_same_v<T, float> && g.kernel_h == g.kernel_w && (g.kernel_h == 2 || g.kernel_h == 3) && g.stride_h == 2 &&
         g.stride_w == 2 && g.pad_h == 0 && g.pad_w == 0 && g.width >= g.kernel_w;
}
template <class T>
pool_plan pool_plan_of(const pool_geometry& g, std::int64_t rows, std::int64_t columns) {
  pool_plan p;
  static_cast<pool_geometry&>(p) = g;
  p.count = g.planes * rows * columns;
  p.rows = pool_divisor_of(rows), p.columns = pool_divisor_of(columns);
  p.step_h = pool_divisor_of(g.stride_h), p.step_w = pool_divisor_of(g.stride_w);
  p.window_order = pool_in_window_order<T>(g);
  return p;
}

// Large windows whose neighbours start far from each other, e.g. whole images. A warp then computes
// a window, with a lane for each column, since threads that own a window each would read far apart.
bool pool_by_warps(const pool_geometry& g) { return g.kernel_h * g.kernel_w >= 32 && (g.out_w == 1 || g.stride_w >= 8); }

unsigned pool_blocks(std::int64_t count, std::int64_t per_block) {
  return static_cast<unsigned>(std::min((count + per_block - 1) / per_block, pool_most_blocks));
}

// The element `i` of the output tensor.
struct pool_place {
  std::int64_t plane, y, x;
};
__device__ pool_place pool_place_of(const pool_plan& p, std::int64_t i) {
  const auto row = pool_quotient(i, p.columns), plane = pool_quotient(row, p.rows);
  return {plane, row - plane * p.rows.number, i - row * p.columns.number};
}

// [first, end) along one axis: of a window, in pixels of the image, or of windows.
struct pool_range {
  std::int64_t first, end;
};
__device__ pool_range pool_window(std::int64_t o, std::int64_t stride, std::int64_t pad, std::int64_t kernel, std::int64_t extent) {
  const auto start = o * stride - pad, end = start + kernel;
  return {start > 0 ? start : 0, end < extent ? end : extent};
}
// Length of a window as a divisor of averages: clipped to the image, or to image plus padding.
__device__ std::int64_t pool_length(std::int64_t o, std::int64_t stride, std::int64_t pad, std::int64_t kernel, std::int64_t extent,
                                    bool count_padding) {
  const auto start = o * stride - pad, end = start + kernel, limit = extent + (count_padding ? pad : 0);
  return (end < limit ? end : limit) - (count_padding || start > 0 ? start : 0);
}
// The windows that cover a pixel.
__device__ pool_range pool_windows_over(std::int64_t pixel, const pool_divisor& stride, std::int64_t pad, std::int64_t kernel,
                                        std::int64_t out) {
  const auto at = pixel + pad, last = pool_quotient(at, stride);
  const auto before = at - last * stride.number;  // pixels of the last window before this one
  const auto more = before < kernel ? pool_quotient(kernel - 1 - before, stride) : -1;
  const auto first = last - more;
  return {first > 0 ? first : 0, last + 1 < out ? last + 1 : out};
}

// A maximum over pixels, which come row by row or column by column. On a tie the lower position
// wins. Of several NaN, the last one wins.
template <class T>
struct pool_maximum {
  T value = -static_cast<T>(__builtin_huge_valf());
  std::int32_t at = 0x7fffffff;
  __device__ void add(T v, std::int32_t where) {
    if (v > value || v != v || (v == value && where < at)) value = v, at = where;
  }
};

// The window of output `i`: place of the output, first element of the plane in x, rows and columns
// in the image.
struct pool_view {
  pool_place at;
  std::int64_t plane;
  pool_range rows, columns;
};
__device__ pool_view pool_view_of(const pool_plan& p, std::int64_t i) {
  const auto o = pool_place_of(p, i);
  return {o, o.plane * p.height * p.width, pool_window(o.y, p.stride_h, p.pad_h, p.kernel_h, p.height),
          pool_window(o.x, p.stride_w, p.pad_w, p.kernel_w, p.width)};
}

template <class T>
__global__ void __launch_bounds__(pool_threads) max_pool_kernel(pool_plan p, const T* x, T* y, std::int32_t* index) {
  const auto step = static_cast<std::int64_t>(gridDim.x) * pool_threads;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * pool_threads + threadIdx.x; i < p.count; i += step) {
    const auto w = pool_view_of(p, i);
    const T* plane = x + w.plane;
    pool_maximum<T> best;
    if (p.window_order) {
      for (auto iy = w.rows.first; iy < w.rows.end; ++iy)
        for (auto ix = w.columns.first; ix < w.columns.end; ++ix)
          best.add(plane[iy * p.width + ix], static_cast<std::int32_t>(iy * p.width + ix));
    } else {
      for (auto ix = w.columns.first; ix < w.columns.end; ++ix)
        for (auto iy = w.rows.first; iy < w.rows.end; ++iy)
          best.add(plane[iy * p.width + ix], static_cast<std::int32_t>(iy * p.width + ix));
    }
    y[i] = best.value;
    index[i] = best.at;
  }
}

template <class T>
__global__ void __launch_bounds__(pool_threads) max_pool_warp_kernel(pool_plan p, const T* x, T* y, std::int32_t* index) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto step = static_cast<std::int64_t>(gridDim.x) * (pool_threads / 32);
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * (pool_threads / 32) + threadIdx.x / 32; i < p.count; i += step) {
    const auto w = pool_view_of(p, i);
    const T* plane = x + w.plane;
    pool_maximum<T> best;
    for (auto left = w.columns.first; left < w.columns.end; left += 32) {
      const auto ix = left + lane;
      pool_maximum<T> column;
      if (ix < w.columns.end)
        for (auto iy = w.rows.first; iy < w.rows.end; ++iy)
          column.add(plane[iy * p.width + ix], static_cast<std::int32_t>(iy * p.width + ix));
      const int lanes = w.columns.end - left < 32 ? static_cast<int>(w.columns.end - left) : 32;
      for (int l = 0; l < lanes; ++l) {
        const T v = __shfl_sync(0xffffffffu, column.value, l);
        best.add(v, __shfl_sync(0xffffffffu, column.at, l));
      }
    }
    if (lane == 0) y[i] = best.value, index[i] = best.at;
  }
}

template <class T>
__global__ void __launch_bounds__(pool_threads)
    max_pool_backward_kernel(pool_plan p, const T* dy, const std::int32_t* index, T* dx) {
  const auto step = static_cast<std::int64_t>(gridDim.x) * pool_threads;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * pool_threads + threadIdx.x; i < p.count; i += step) {
    const auto e = pool_place_of(p, i);
    const auto down = pool_windows_over(e.y, p.step_h, p.pad_h, p.kernel_h, p.out_h);
    const auto across = pool_windows_over(e.x, p.step_w, p.pad_w, p.kernel_w, p.out_w);
    const auto at = static_cast<std::int32_t>(e.y * p.width + e.x);
    T sum = 0;
    for (auto oy = down.first; oy < down.end; ++oy) {
      const auto row = (e.plane * p.out_h + oy) * p.out_w;
      for (auto ox = across.first; ox < across.end; ++ox)
        if (index[row + ox] == at) sum += dy[row + ox];
    }
    dx[i] = sum;
  }
}

// The number of elements of a window.
template <class T>
__device__ T pool_elements(const pool_plan& p, std::int64_t oy, std::int64_t ox) {
  const auto rows = pool_length(oy, p.stride_h, p.pad_h, p.kernel_h, p.height, p.count_padding);
  const auto columns = pool_length(ox, p.stride_w, p.pad_w, p.kernel_w, p.width, p.count_padding);
  return static_cast<T>(rows) * static_cast<T>(columns);
}

// The sum of a window adds its columns from left to right, each from top to bottom.
template <class T>
__global__ void __launch_bounds__(pool_threads) avg_pool_kernel(pool_plan p, const T* x, T* y) {
  const auto step = static_cast<std::int64_t>(gridDim.x) * pool_threads;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * pool_threads + threadIdx.x; i < p.count; i += step) {
    const auto w = pool_view_of(p, i);
    const T* plane = x + w.plane;
    T sum = 0;
    for (auto ix = w.columns.first; ix < w.columns.end; ++ix) {
      T column = 0;
      for (auto iy = w.rows.first; iy < w.rows.end; ++iy) column += plane[iy * p.width + ix];
      sum += column;
    }
    y[i] = sum / pool_elements<T>(p, w.at.y, w.at.x);
  }
}

template <class T>
__global__ void __launch_bounds__(pool_threads) avg_pool_warp_kernel(pool_plan p, const T* x, T* y) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto step = static_cast<std::int64_t>(gridDim.x) * (pool_threads / 32);
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * (pool_threads / 32) + threadIdx.x / 32; i < p.count; i += step) {
    const auto w = pool_view_of(p, i);
    const T* plane = x + w.plane;
    T sum = 0;
    for (auto left = w.columns.first; left < w.columns.end; left += 32) {
      const auto ix = left + lane;
      T column = 0;
      if (ix < w.columns.end)
        for (auto iy = w.rows.first; iy < w.rows.end; ++iy) column += plane[iy * p.width + ix];
      const int lanes = w.columns.end - left < 32 ? static_cast<int>(w.columns.end - left) : 32;
      for (int l = 0; l < lanes; ++l) sum += __shfl_sync(0xffffffffu, column, l);
    }
    if (lane == 0) y[i] = sum / pool_elements<T>(p, w.at.y, w.at.x);
  }
}

template <class T>
__global__ void __launch_bounds__(pool_threads) avg_pool_backward_kernel(pool_plan p, const T* dy, T* dx) {
  const auto step = static_cast<std::int64_t>(gridDim.x) * pool_threads;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * pool_threads + threadIdx.x; i < p.count; i += step) {
    const auto e = pool_place_of(p, i);
    const auto down = pool_windows_over(e.y, p.step_h, p.pad_h, p.kernel_h, p.out_h);
    const auto across = pool_windows_over(e.x, p.step_w, p.pad_w, p.kernel_w, p.out_w);
    T sum = 0;
    for (auto oy = down.first; oy < down.end; ++oy) {
      const T* row = dy + (e.plane * p.out_h + oy) * p.out_w;
      // In the order of windows all terms are added to one sum, otherwise the rows' sums are.
      T part = p.window_order ? sum : T(0);
      for (auto k = across.first; k < across.end; ++k) {
        const auto ox = p.window_order ? k : across.first + across.end - 1 - k;
        part += row[ox] / pool_elements<T>(p, oy, ox);
      }
      sum = p.window_order ? part : sum + part;
    }
    dx[i] = sum;
  }
}

}  // namespace

template <class T>
void max_pool(cudaStream_t s, const pool_geometry& g, const T* x, T* y, std::int32_t* index) {
  const auto p = pool_plan_of<T>(g, g.out_h, g.out_w);
  if (p.count == 0) return;
  if (pool_by_warps(g))
    launch(max_pool_warp_kernel<T>, pool_blocks(p.count, pool_threads / 32), pool_threads, 0, s, p, x, y, index);
  else
    launch(max_pool_kernel<T>, pool_blocks(p.count, pool_threads), pool_threads, 0, s, p, x, y, index);
}

template <class T>
void max_pool_backward(cudaStream_t s, const pool_geometry& g, const T* dy, const std::int32_t* index, T* dx) {
  const auto p = pool_plan_of<T>(g, g.height, g.width);
  if (p.count == 0) return;
  launch(max_pool_backward_kernel<T>, pool_blocks(p.count, pool_threads), pool_threads, 0, s, p, dy, index, dx);
}

template <class T>
void avg_pool(cudaStream_t s, const pool_geometry& g, const T* x, T* y) {
  const auto p = pool_plan_of<T>(g, g.out_h, g.out_w);
  if (p.count == 0) return;
  if (pool_by_warps(g))
    launch(avg_pool_warp_kernel<T>, pool_blocks(p.count, pool_threads / 32), pool_threads, 0, s, p, x, y);
  else
    launch(avg_pool_kernel<T>, pool_blocks(p.count, pool_threads), pool_threads, 0, s, p, x, y);
}

template <class T>
void avg_pool_backward(cudaStream_t s, const pool_geometry& g, const T* dy, T* dx) {
  const auto p = pool_plan_of<T>(g, g.height, g.width);
  if (p.count == 0) return;
  launch(avg_pool_backward_kernel<T>, pool_blocks(p.count, pool_threads), pool_threads, 0, s, p, dy, dx);
}

template void max_pool(cudaStream_t, const pool_geometry&, const float*, float*, std::int32_t*);
template void max_pool(cudaStream_t, const pool_geometry&, const double*, double*, std::int32_t*);
template void max_pool_backward(cudaStream_t, const pool_geometry&, const float*, const std::int32_t*, float*);
template void max_pool_backward(cudaStream_t, const pool_geometry&, const double*, const std::int32_t*, double*);
template void avg_pool(cudaStream_t, const pool_geometry&, const float*, float*);
template void avg_pool(cudaStream_t, const pool_geometry&, const double*, double*);
template void avg_pool_backward(cudaStream_t, const pool_geometry&, const float*, float*);
template void avg_pool_backward(cudaStream_t, const pool_geometry&, const double*, double*);

}  // namespace troupe::cuda::kernels
