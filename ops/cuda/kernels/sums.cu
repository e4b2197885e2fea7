// If inner > 1, a group of threads sums a channel. If inner is 1, channels are adjacent, and a
// block sums neighbouring columns. sum_squares: a block reduces 256 leaves of the tree to one node;
// further launches reduce 256 nodes to one.
#include "ops/cuda/kernels/sums.hpp"

#include "ops/cuda/kernel_language.hpp"
#include "ops/cuda/kernels/thread_group.hpp"

namespace troupe::cuda::kernels {
namespace {

constexpr int leaf_elements = 16, squares_of_block = block_threads * leaf_elements;

// product: the sum of x y; otherwise of x, and y is null.
template <class T, bool product, int W>
__global__ void __launch_bounds__(block_threads)
    channel_sum_kernel(std::int64_t outer, std::int64_t mid, std::int64_t inner, const T* x, const T* y, T* out) {
  using group = thread_group<W>;
  const auto m = group::number();
  if (m >= mid) return;
  T sum = T(0);
  group::each_of_channel(outer, mid, inner, m, [&](std::int64_t at) { sum += product ? x[at] * y[at] : x[at]; });
  sum = group::sum(sum);
  if (group::thread() == 0) out[m] = sum;
}

template <class T, bool product>
__global__ void __launch_bounds__(block_threads)
    column_sum_kernel(std::int64_t outer, std::int64_t mid, int columns, const T* x, const T* y, T* out) {
  const column_place p(columns);
  T sum = T(0);
  if (p.column < mid)
    for (std::int64_t o = p.row; o < outer; o += p.rows) {
      const std::int64_t at = o * mid + p.column;
      sum += product ? x[at] * y[at] : x[at];
    }
  sum = column_sum(columns, sum);
  if (p.row == 0 && p.column < mid) out[p.column] = sum;
}

template <class T, int W>
__global__ void __launch_bounds__(block_threads)
    channel_moments_kernel(std::int64_t outer, std::int64_t mid, std::int64_t inner, const T* x, T* mean, T* variance) {
  using group = thread_group<W>;
  const auto m = group::number();
  if (m >= mid) return;
  const double count = static_cast<double>(outer * inner);
  double sum = 0;
  group::each_of_channel(outer, mid, inner, m, [&](std::int64_t at) { sum += static_cast<double>(x[at]); });
  const T centre = static_cast<T>(group::sum(sum) / count);
  double away = 0, squares = 0;
  group::each_of_channel(outer, mid, inner, m, [&](std::int64_t at) {
    const double d = static_cast<double>(x[at] - centre);
    away += d;
    squares += d * d;
  });
  away = group::sum(away);
  squares = group::sum(squares) - away * away / count;
  if (group::thread() != 0) return;
  mean[m] = static_cast<T>(static_cast<double>(centre) + away / count);
  variance[m] = static_cast<T>(squares < 0 ? 0.0 : squares / count);
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    column_moments_kernel(std::int64_t outer, std::int64_t mid, int columns, const T* x, T* mean, T* variance) {
  const column_place p(columns);
  const T share = T(1) / static_cast<T>(outer);
  T sum = T(0);
  if (p.column < mid)
    for (std::int64_t o = p.row; o < outer; o += p.rows) sum += x[o * mid + p.column];
  const T centre = column_sum(columns, sum) * share;
  T squares = T(0);
  if (p.column < mid)
    for (std::int64_t o = p.row; o < outer; o += p.rows) {
      const T d = x[o * mid + p.column] - centre;
      squares += d * d;
    }
  squares = column_sum(columns, squares) * share;
  if (p.row != 0 || p.column >= mid) return;
  mean[p.column] = centre;
  variance[p.column] = squares;
}

// sums[block] = the node of the block's leaves. Elements and leaves beyond n count as 0, which does
// not change a sum of squares. The elements pass through shared memory, so that neighbouring
// threads read neighbouring elements; a leaf has leaf_elements + 1 places there, which avoids
// conflicts of banks.
template <class T>
__global__ void __launch_bounds__(block_threads) squares_kernel(std::int64_t n, const T* x, double* sums) {
  TROUPE_SHARED(T, block_threads * (leaf_elements + 1), element);
  const auto first = static_cast<std::int64_t>(blockIdx.x) * squares_of_block;
  const int t = static_cast<int>(threadIdx.x);
  for (int e = t; e < squares_of_block; e += block_threads) element[e + e / leaf_elements] = first + e < n ? x[first + e] : T(0);
  __syncthreads();
  double lane[leaf_elements];
  for (int l = 0; l < leaf_elements; ++l) {
    const T v = element[t * (leaf_elements + 1) + l];
    lane[l] = static_cast<double>(v) * static_cast<double>(v);
  }
  for (int width = leaf_elements / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  const double sum = thread_group<block_threads>::sum(lane[0]);
  if (t == 0) sums[blockIdx.x] = sum;
}

// to[block] = the node of 256 nodes.
__global__ void __launch_bounds__(block_threads) nodes_kernel(std::int64_t n, const double* from, double* to) {
  const auto i = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  const double sum = thread_group<block_threads>::sum(i < n ? from[i] : 0.0);
  if (threadIdx.x == 0) to[blockIdx.x] = sum;
}

template <bool product, class T>
void channel_sums(cudaStream_t stream, std::int64_t outer, std::int64_t mid, std::int64_t inner, const T* x, const T* y, T* out) {
  if (mid == 0) return;
  if (inner > 1 && outer > 0) {
    launch_groups(stream, mid, outer * inner, channel_sum_kernel<T, product, 32>, channel_sum_kernel<T, product, block_threads>,
                  outer, mid, inner, x, y, out);
    return;
  }
  const int columns = columns_of_block(mid);
  launch(column_sum_kernel<T, product>, static_cast<unsigned>(blocks_for(mid, columns)), block_threads, 0, stream, outer * inner,
         mid, columns, x, y, out);
}

}  // namespace

template <class T>
void reduce_sum(cudaStream_t stream, std::int64_t outer, std::int64_t mid, std::int64_t inner, const T* x, T* out) {
  channel_sums<false>(stream, outer, mid, inner, x, static_cast<const T*>(nullptr), out);
}

template <class T>
void reduce_product(cudaStream_t stream, std::int64_t outer, std::int64_t mid, std::int64_t inner, const T* x, const T* y, T* out) {
  channel_sums<true>(stream, outer, mid, inner, x, y, out);
}

template <class T>
void moments(cudaStream_t stream, std::int64_t outer, std::int64_t mid, std::int64_t inner, const T* x, T* mean, T* variance) {
  if (mid == 0) return;
  if (inner > 1 && outer > 0) {
    launch_groups(stream, mid, outer * inner, channel_moments_kernel<T, 32>, channel_moments_kernel<T, block_threads>, outer, mid,
                  inner, x, mean, variance);
    return;
  }
  const int columns = columns_of_block(mid);
  launch(column_moments_kernel<T>, static_cast<unsigned>(blocks_for(mid, columns)), block_threads, 0, stream, outer * inner, mid,
         columns, x, mean, variance);
}

std::int64_t sum_squares_scratch(std::int64_t n) {
  std::int64_t all = 0;
  for (auto nodes = blocks_for(n, squares_of_block); nodes > 1; nodes = blocks_for(nodes, block_threads)) all += nodes;
  return all;
}

template <class T>
void sum_squares(cudaStream_t stream, std::int64_t n, const T* x, double* sum, double* scratch) {
  auto nodes = std::max<std::int64_t>(1, blocks_for(n, squares_of_block));
  double* from = nodes > 1 ? scratch : sum;
  launch(squares_kernel<T>, static_cast<unsigned>(nodes), block_threads, 0, stream, n, x, from);
  while (nodes > 1) {
    const auto parents = blocks_for(nodes, block_threads);
    double* to = parents > 1 ? from + nodes : sum;
    launch(nodes_kernel, static_cast<unsigned>(parents), block_threads, 0, stream, nodes, from, to);
    from = to, nodes = parents;
  }
}

#define TROUPE_SUMS(T)                                                                                          \
  template void reduce_sum(cudaStream_t, std::int64_t, std::int64_t, std::int64_t, const T*, T*);               \
  template void reduce_product(cudaStream_t, std::int64_t, std::int64_t, std::int64_t, const T*, const T*, T*); \
  template void moments(cudaStream_t, std::int64_t, std::int64_t, std::int64_t, const T*, T*, T*);              \
  template void sum_squares(cudaStream_t, std::int64_t, const T*, double*, double*);
TROUPE_SUMS(float)
TROUPE_SUMS(double)
#undef TROUPE_SUMS

}  // namespace troupe::cuda::kernels
