// Sums: a group of threads per channel, or a block per 32 neighbouring columns if inner is 1.
// Element-wise kernels: a block has elements_of_block neighbouring elements in memory order, and
// each thread steps through its elements without divisions.
#include "ops/cuda/kernels/norm.hpp"

#include <cmath>

#include "ops/cuda/kernel_language.hpp"
#include "ops/cuda/kernels/sums.hpp"
#include "ops/cuda/kernels/thread_group.hpp"

namespace troupe::cuda::kernels {
namespace {

constexpr int elements_of_thread = 8, elements_of_block = elements_of_thread * block_threads;

// A column of the table.
template <class T>
struct norm_channel {
  __device__ norm_channel(const T* table, std::int64_t mid, std::int64_t m)
      : mean(table[m]), r(table[mid + m]), slope(table[2 * mid + m]), shift(table[3 * mid + m]) {}
  __device__ T at(T x) const { return (x - mean) * slope + shift; }
  // dy, or 0 where a following relu is not positive.
  template <bool rectified>
  __device__ T gradient(T x, T dy) const {
    return !rectified || at(x) > T(0) ? dy : T(0);
  }
  T mean, r, slope, shift;
};

// Calls f(position, channel) for the elements of a tensor [outer, mid, inner] with n elements that
// this thread has. n must not be 0.
template <class F>
__device__ void each_of_block(std::int64_t n, std::int64_t mid, std::int64_t inner, F f) {
  std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * elements_of_block + threadIdx.x;
  const std::int64_t end = at + elements_of_block < n ? at + elements_of_block : n;
  const std::int64_t row = at / inner, rows = block_threads / inner, step = block_threads - rows * inner, channels = rows % mid;
  std::int64_t i = at - row * inner, m = row % mid;
  for (; at < end; at += block_threads) {
    f(at, m);
    i += step, m += channels;
    if (i >= inner) i -= inner, ++m;
    if (m >= mid) m -= mid;
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    norm_table_kernel(std::int64_t mid, T epsilon, const T* mean, const T* variance, const T* weight, const T* bias, T* table) {
  const auto m = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (m >= mid) return;
  const T r = T(1) / std::sqrt(variance[m] + epsilon);
  table[m] = mean[m];
  table[mid + m] = r;
  table[2 * mid + m] = weight != nullptr ? weight[m] * r : r;
  table[3 * mid + m] = bias != nullptr ? bias[m] : T(0);
}

template <class T, bool rectified>
__global__ void __launch_bounds__(block_threads)
    norm_apply_kernel(std::int64_t n, std::int64_t mid, std::int64_t inner, const T* x, const T* table, T* __restrict__ y) {
  each_of_block(n, mid, inner, [&](std::int64_t at, std::int64_t m) {
    const T v = norm_channel<T>(table, mid, m).at(x[at]);
    y[at] = rectified && v < T(0) ? T(0) : v;
  });
}

template <class T, bool rectified, int W>
__global__ void __launch_bounds__(block_threads) norm_channel_sums_kernel(std::int64_t outer, std::int64_t mid, std::int64_t inner,
                                                                          const T* x, const T* table, const T* dy, T* sums) {
  using group = thread_group<W>;
  const auto m = group::number();
  if (m >= mid) return;
  const norm_channel<T> c(table, mid, m);
  double plain = 0, product = 0;
  group::each_of_channel(outer, mid, inner, m, [&](std::int64_t at) {
    const T v = x[at], d = c.template gradient<rectified>(v, dy[at]);
    plain += static_cast<double>(d);
    product += static_cast<double>(d) * static_cast<double>(v - c.mean);
  });
  plain = group::sum(plain);
  product = group::sum(product);
  if (group::thread() != 0) return;
  sums[m] = static_cast<T>(plain);
  sums[mid + m] = static_cast<T>(product * static_cast<double>(c.r));
}

template <class T, bool rectified>
__global__ void __launch_bounds__(block_threads)
    norm_column_sums_kernel(std::int64_t outer, std::int64_t mid, int columns, const T* x, const T* table, const T* dy, T* sums) {
  const column_place p(columns);
  const std::int64_t m = p.column < mid ? p.column : mid - 1;
  const norm_channel<T> c(table, mid, m);
  T plain = T(0), product = T(0);
  for (std::int64_t o = p.column < mid ? p.row : outer; o < outer; o += p.rows) {
    const T v = x[o * mid + m], d = c.template gradient<rectified>(v, dy[o * mid + m]);
    plain += d;
    product += d * (v - c.mean);
  }
  plain = column_sum(columns, plain);
  product = column_sum(columns, product);
  if (p.row != 0 || p.column >= mid) return;
  sums[m] = plain;
  sums[mid + m] = product * c.r;
}

// share: -1 / count.
template <class T, bool rectified>
__global__ void __launch_bounds__(block_threads)
    norm_slope_kernel(std::int64_t n, std::int64_t mid, std::int64_t inner, const T* x, const T* table, const T* sums, T share,
                      const T* dy, T* __restrict__ dx) {
  each_of_block(n, mid, inner, [&](std::int64_t at, std::int64_t m) {
    const norm_channel<T> c(table, mid, m);
    const T down = c.slope * (sums[m] * share), along = c.slope * (c.r * (sums[mid + m] * share));
    const T v = x[at], d = c.template gradient<rectified>(v, dy[at]);
    dx[at] = d * c.slope + ((v - c.mean) * along + down);
  });
}

}  // namespace

template <class T>
void norm_table(cudaStream_t stream, const norm_geometry& g, const T* mean, const T* variance, const T* weight, const T* bias,
                T* table) {
  if (g.mid == 0) return;
  launch(norm_table_kernel<T>, static_cast<unsigned>(blocks_for(g.mid, block_threads)), block_threads, 0, stream, g.mid,
         static_cast<T>(g.epsilon), mean, variance, weight, bias, table);
}

template <class T>
void norm_apply(cudaStream_t stream, const norm_geometry& g, const T* x, const T* table, T* y) {
  const auto n = g.outer * g.mid * g.inner;
  if (n == 0) return;
  launch(g.rectified ? norm_apply_kernel<T, true> : norm_apply_kernel<T, false>,
         static_cast<unsigned>(blocks_for(n, elements_of_block)), block_threads, 0, stream, n, g.mid, g.inner, x, table, y);
}

template <class T>
void norm_forward(cudaStream_t stream, const norm_geometry& g, const T* x, const T* weight, const T* bias, T* variance, T* table,
                  T* y) {
  moments(stream, g.outer, g.mid, g.inner, x, table, variance);
  norm_table(stream, g, static_cast<const T*>(table), static_cast<const T*>(variance), weight, bias, table);
  norm_apply(stream, g, x, static_cast<const T*>(table), y);
}

template <class T>
void norm_sums(cudaStream_t stream, const norm_geometry& g, const T* x, const T* table, const T* dy, T* sums) {
  if (g.mid == 0) return;
  if (g.inner > 1 && g.outer > 0) {
    auto* narrow = g.rectified ? norm_channel_sums_kernel<T, true, 32> : norm_channel_sums_kernel<T, false, 32>;
    auto* wide = g.rectified ? norm_channel_sums_kernel<T, true, block_threads> : norm_channel_sums_kernel<T, false, block_threads>;
    launch_groups(stream, g.mid, g.outer * g.inner, narrow, wide, g.outer, g.mid, g.inner, x, table, dy, sums);
    return;
  }
  const int columns = columns_of_block(g.mid);
  launch(g.rectified ? norm_column_sums_kernel<T, true> : norm_column_sums_kernel<T, false>,
         static_cast<unsigned>(blocks_for(g.mid, columns)), block_threads, 0, stream, g.outer * g.inner, g.mid, columns, x, table,
         dy, sums);
}

template <class T>
void norm_slope(cudaStream_t stream, const norm_geometry& g, const T* x, const T* table, const T* sums, double count, const T* dy,
                T* dx) {
  const auto n = g.outer * g.mid * g.inner;
  if (n == 0) return;
  launch(g.rectified ? norm_slope_kernel<T, true> : norm_slope_kernel<T, false>,
         static_cast<unsigned>(blocks_for(n, elements_of_block)), block_threads, 0, stream, n, g.mid, g.inner, x, table, sums,
         static_cast<T>(-1.0 / count), dy, dx);
}

template <class T>
void norm_backward(cudaStream_t stream, const norm_geometry& g, const T* x, const T* table, const T* dy, T* sums, T* dx) {
  norm_sums(stream, g, x, table, dy, sums);
  norm_slope(stream, g, x, table, static_cast<const T*>(sums), static_cast<double>(g.outer * g.inner), dy, dx);
}

#define TROUPE_NORM(T)                                                                                              \
  template void norm_forward(cudaStream_t, const norm_geometry&, const T*, const T*, const T*, T*, T*, T*);         \
  template void norm_table(cudaStream_t, const norm_geometry&, const T*, const T*, const T*, const T*, T*);         \
  template void norm_apply(cudaStream_t, const norm_geometry&, const T*, const T*, T*);                             \
  template void norm_sums(cudaStream_t, const norm_geometry&, const T*, const T*, const T*, T*);                    \
  template void norm_slope(cudaStream_t, const norm_geometry&, const T*, const T*, const T*, double, const T*, T*); \
  template void norm_backward(cudaStream_t, const norm_geometry&, const T*, const T*, const T*, T*, T*);
TROUPE_NORM(float)
TROUPE_NORM(double)
#undef TROUPE_NORM

}  // namespace troupe::cuda::kernels
