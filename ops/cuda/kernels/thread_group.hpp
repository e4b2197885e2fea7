// Groups of threads that compute one sum or one row together: a warp for short rows, a block of 256
// threads for long ones. The size depends on the row only, and every sum has a fixed order: first
// within a thread, then by a binary tree over the threads. Results are therefore the same on every
// device.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "ops/cuda/kernel_language.hpp"

namespace troupe::cuda::kernels {

constexpr int block_threads = 256;

// Number of blocks of `each` elements that cover n elements.
inline std::int64_t blocks_for(std::int64_t n, std::int64_t each) { return (n + each - 1) / each; }

struct addition {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

// Threads W g to W g + W - 1 of the grid are group g. All threads of a group must call fold() and
// sum() together.
template <int W>
struct thread_group {
  static_assert(W == 32 || W == block_threads);
  static __device__ int thread() { return static_cast<int>(threadIdx.x) % W; }
  static __device__ std::int64_t number() {
    return static_cast<std::int64_t>(blockIdx.x) * (block_threads / W) + static_cast<int>(threadIdx.x) / W;
  }
  // Joins the values of the threads by a binary tree, in which thread t is leaf t. `join` must be
  // commutative. Returns the root to every thread.
  template <class T, class F>
  static __device__ T fold(T v, F join) {
    for (int bit = 1; bit < 32; bit *= 2) v = join(v, __shfl_xor_sync(0xffffffffu, v, bit));
    if constexpr (W == block_threads) {
      constexpr int warps = block_threads / 32;
      TROUPE_SHARED(T, warps, of_warp);
      const int t = static_cast<int>(threadIdx.x);
      __syncthreads();  // the threads have read the values of an earlier call
      if (t % 32 == 0) of_warp[t / 32] = v;
      __syncthreads();
      T part[warps];
      for (int w = 0; w < warps; ++w) part[w] = of_warp[w];
      for (int span = 1; span < warps; span *= 2)
        for (int w = 0; w < warps; w += 2 * span) part[w] = join(part[w], part[w + span]);
      v = part[0];
    }
    return v;
  }
  template <class T>
  static __device__ T sum(T v) {
    return fold(v, addition{});
  }

  // Calls f(position) for the elements of channel m of a tensor [outer, mid, inner], which the
  // threads of the group share in memory order. inner must not be 0.
  template <class F>
  static __device__ void each_of_channel(std::int64_t outer, std::int64_t mid, std::int64_t inner, std::int64_t m, F f) {
    const std::int64_t first = thread(), rows = W / inner, step = W - rows * inner;
    std::int64_t o = first / inner, i = first - o * inner, at = (o * mid + m) * inner + i;
    while (o < outer) {
      f(at);
      o += rows, i += step, at += rows * mid * inner + step;
      if (i >= inner) ++o, i -= inner, at += (mid - 1) * inner;
    }
  }
};

// Launches `count` groups for rows of `length` elements: `narrow` is the kernel with groups of a
// warp, `wide` with groups of a block. A group must check that its number is below `count`.
template <class... P, class... A>
void launch_groups(cudaStream_t stream, std::int64_t count, std::int64_t length, void (*narrow)(P...), void (*wide)(P...),
                   A... args) {
  constexpr std::int64_t longest_of_warp = 1024;
  if (length <= longest_of_warp)
    launch(narrow, static_cast<unsigned>(blocks_for(count, block_threads / 32)), block_threads, 0, stream, args...);
  else
    launch(wide, static_cast<unsigned>(count), block_threads, 0, stream, args...);
}

// The place of a thread in sums of the columns of a matrix [rows, mid]: the block has `columns`
// neighbouring columns, a power of two up to 32, and block_threads / columns rows of threads.
// Neighbouring threads have neighbouring columns.
struct column_place {
  __device__ explicit column_place(int columns)
      : row(static_cast<int>(threadIdx.x) / columns),
        rows(block_threads / columns),
        column(static_cast<std::int64_t>(blockIdx.x) * columns + static_cast<int>(threadIdx.x) % columns) {}
  int row, rows;
  std::int64_t column;
};
inline int columns_of_block(std::int64_t mid) {
  return mid >= 32 ? 32 : static_cast<int>(std::bit_ceil(static_cast<std::uint32_t>(mid)));
}
// Returns the sum of v over the rows of threads, to every thread of the column. All threads of the
// block must call it together.
template <class T>
__device__ T column_sum(int columns, T v) {
  TROUPE_SHARED(T, block_threads, part);
  const int t = static_cast<int>(threadIdx.x);
  __syncthreads();  // the threads have read the values of an earlier call
  part[t] = v;
  for (int half = block_threads / 2; half >= columns; half /= 2) {
    __syncthreads();
    if (t < half) part[t] += part[t + half];
  }
  __syncthreads();
  const T sum = part[t % columns];
  return sum;
}

}  // namespace troupe::cuda::kernels
