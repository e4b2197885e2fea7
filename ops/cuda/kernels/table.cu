// Lookup of rows and resampling. Each output element is computed by one thread, which adds in the
// order of ops/cpu/channel.inl.
#include "ops/cuda/kernels/table.hpp"

#include <algorithm>
#include <limits>

#include "ops/cuda/kernel_language.hpp"

namespace troupe::cuda::kernels {
namespace {

using i64 = std::int64_t;
using u32 = std::uint32_t;

constexpr int table_block = 256;
constexpr i64 table_blocks = 2112;  // two waves of full multiprocessors on an H100
template <class T>
constexpr T table_nan = std::numeric_limits<T>::quiet_NaN();

i64 rounded_up_quotient(i64 n, i64 d) { return (n + d - 1) / d; }
unsigned table_grid(i64 n) { return static_cast<unsigned>(std::min(rounded_up_quotient(n, table_block), table_blocks)); }

// Elements of a grid-stride loop.
__device__ i64 table_first() { return static_cast<i64>(blockIdx.x) * table_block + threadIdx.x; }
__device__ i64 table_step() { return static_cast<i64>(gridDim.x) * table_block; }

// Appends a launch of an element-wise kernel for n elements.
template <class... P, class... A>
void launch_table(void (*kernel)(P...), i64 n, cudaStream_t s, A... args) {
  if (n > 0) launch(kernel, table_grid(n), table_block, 0, s, args...);
}

// --- rows

template <class T>
__global__ void __launch_bounds__(table_block)
    gather_rows_kernel(i64 n, i64 vocabulary, i64 length, const T* table, const std::int32_t* ids, T* out) {
  for (i64 i = table_first(); i < n; i += table_step()) {
    const i64 r = i / length, id = ids[r];
    T v = id < 0 ? T(0) : table_nan<T>;
    if (id >= 0 && id < vocabulary) v = table[id * length + (i - r * length)];
    out[i] = v;
  }
}

__device__ int count_of_bits(u32 x) {
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  return static_cast<int>(((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
}

// A block computes the rows `first` to `end` - 1 of the table, at most 32, and `width` of their
// columns: thread t has column t % width of the rows first + v with v % groups == t / width,
// groups = 256 / width. The block reads the ids in tiles of 1024. It lists the rows of x in a
// tile that it needs, in row order, and each thread adds its elements of them to the table.
template <class T>
__global__ void __launch_bounds__(table_block)
    scatter_rows_kernel(i64 rows, i64 vocabulary, i64 length, i64 count_each, int width, i64 column_blocks, const T* x,
                        const std::int32_t* ids, T* table) {
  constexpr int steps = 4, tile = steps * table_block, warps = table_block / 32;
  TROUPE_SHARED(std::int32_t, tile, list);  // row within the tile x 32 + v - first
  TROUPE_SHARED(int, warps, found);         // entries of each warp
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32;
  const i64 first = blockIdx.x / column_blocks * count_each,
            end = first + count_each < vocabulary ? first + count_each : vocabulary;
  const i64 column = blockIdx.x % column_blocks * width + t % width;
  const int group = t / width, groups = table_block / width;
  if (column < length)
    for (i64 v = first + group; v < end; v += groups) table[v * length + column] = T(0);
  for (i64 begin = 0; begin < rows; begin += tile) {
    u32 votes[steps];
    i64 id[steps];
    int own = 0;
    for (int k = 0; k < steps; ++k) {
      const i64 r = begin + (warp * steps + k) * 32 + lane;
      id[k] = r < rows ? ids[r] : -1;
      votes[k] = __ballot_sync(0xffffffffu, id[k] >= first && id[k] < end);
      own += count_of_bits(votes[k]);
    }
    if (lane == 0) found[warp] = own;
    __syncthreads();
    int at = 0, all = 0;
    for (int w = 0; w < warps; ++w) {
      const int entries = found[w];
      if (w < warp) at += entries;
      all += entries;
    }
    for (int k = 0; k < steps; ++k) {
      if (votes[k] >> lane & 1u)
        list[at + count_of_bits(votes[k] & ((1u << lane) - 1u))] =
            ((warp * steps + k) * 32 + lane) * 32 + static_cast<int>(id[k] - first);
      at += count_of_bits(votes[k]);
    }
    __syncthreads();
    for (int e = 0; e < all; ++e) {
      const int entry = list[e], v = entry % 32;
      if (v % groups == group && column < length) table[(first + v) * length + column] += x[(begin + entry / 32) * length + column];
    }
  }
}

// --- resampling

template <class T>
__global__ void __launch_bounds__(table_block) resample_kernel(i64 n, i64 in, i64 out, i64 inner, i64 taps,
                                                               const std::int32_t* index, const double* weight, const T* x, T* y) {
  for (i64 q = table_first(); q < n; q += table_step()) {
    const i64 row = inner == 1 ? q : q / inner, i = q - row * inner, o = row / out, j = row - o * out;
    T sum = T(0);
    for (i64 e = j * taps; e < (j + 1) * taps; ++e) {
      const i64 k = index[e];
      if (k >= 0) sum += static_cast<T>(weight[e]) * x[(o * in + k) * inner + i];
    }
    y[q] = sum;
  }
}

// Thread q has position q % (in inner) of the rows q / (in inner) + a multiple of `lanes`. It adds
// the entries of the table that name its element of the axis, in order. The block first finds the
// range of entries that name elements of its own part of the axis, then each thread narrows it.
// At least 4 blocks per multiprocessor: without this limit ptxas aims at 32 registers and spills.
template <class T>
__global__ void __launch_bounds__(table_block, 4)
    resample_backward_kernel(i64 outer, i64 in, i64 out, i64 inner, i64 taps, i64 lanes, const std::int32_t* index,
                             const double* weight, const T* dy, T* dx) {
  constexpr int warps = table_block / 32;
  TROUPE_SHARED(i64, warps, firsts);
  TROUPE_SHARED(i64, warps, lasts);
  const int t = static_cast<int>(threadIdx.x);
  const i64 row = in * inner, all = lanes * row, entries = out * taps;
  const i64 q0 = static_cast<i64>(blockIdx.x) * table_block, q = q0 + t,
            q1 = q0 + table_block < all ? q0 + table_block - 1 : all - 1;
  const bool one_row = q0 / row == q1 / row;
  const i64 low = one_row ? q0 % row / inner : 0, high = one_row ? q1 % row / inner : in - 1;
  i64 first = entries, last = -1;
  for (i64 e = t; e < entries; e += table_block) {
    const i64 k = index[e];
    if (k < low || k > high) continue;
    if (first == entries) first = e;
    last = e;
  }
  for (int d = 16; d > 0; d /= 2) {
    const i64 f = __shfl_xor_sync(0xffffffffu, first, d), l = __shfl_xor_sync(0xffffffffu, last, d);
    if (f < first) first = f;
    if (l > last) last = l;
  }
  if (t % 32 == 0) {
    firsts[t / 32] = first;
    lasts[t / 32] = last;
  }
  __syncthreads();
  for (int w = 0; w < warps; ++w) {
    const i64 f = firsts[w], l = lasts[w];
    if (f < first) first = f;
    if (l > last) last = l;
  }
  if (q >= all) return;
  const i64 k = q % row / inner, i = q % inner;
  while (first <= last && index[first] != k) ++first;
  while (first <= last && index[last] != k) --last;
  for (i64 o = q / row; o < outer; o += lanes) {
    T sum = T(0);
    i64 j = first <= last ? first / taps : 0, tap = first - j * taps;
    for (i64 e = first; e <= last; ++e) {
      if (index[e] == k) sum += static_cast<T>(weight[e]) * dy[(o * out + j) * inner + i];
      if (++tap == taps) tap = 0, ++j;
    }
    dx[(o * in + k) * inner + i] = sum;
  }
}

}  // namespace

template <class T>
void gather_rows(cudaStream_t s, i64 rows, i64 vocabulary, i64 length, const T* table, const std::int32_t* ids, T* out) {
  launch_table(gather_rows_kernel<T>, rows * length, s, rows * length, vocabulary, length, table, ids, out);
}

template <class T>
void scatter_rows(cudaStream_t s, i64 rows, i64 vocabulary, i64 length, const T* x, const std::int32_t* ids, T* table) {
  if (vocabulary * length == 0) return;
  int width = 32;
  while (width < table_block && width < length) width *= 2;
  const i64 column_blocks = rounded_up_quotient(length, width);
  // Rows for each block: more rows read the ids less often, fewer rows give more blocks.
  const i64 count_each = std::clamp<i64>(vocabulary * column_blocks / table_blocks, 1, 32);
  const auto grid = static_cast<unsigned>(rounded_up_quotient(vocabulary, count_each) * column_blocks);
  launch(scatter_rows_kernel<T>, grid, table_block, 0, s, rows, vocabulary, length, count_each, width, column_blocks, x, ids,
         table);
}

template <class T>
void resample(cudaStream_t s, const resample_geometry& g, const std::int32_t* index, const double* weight, const T* x, T* y) {
  const i64 n = g.outer * g.out * g.inner;
  launch_table(resample_kernel<T>, n, s, n, g.in, g.out, g.inner, g.taps, index, weight, x, y);
}

template <class T>
void resample_backward(cudaStream_t s, const resample_geometry& g, const std::int32_t* index, const double* weight, const T* dy,
                       T* dx) {
  const i64 row = g.in * g.inner;
  if (g.outer * row == 0) return;
  // Enough threads for a GPU; more rows in each thread share the search of the table.
  const i64 lanes = std::clamp<i64>(table_blocks / 2 * table_block / row, 1, g.outer);
  const auto grid = static_cast<unsigned>(rounded_up_quotient(lanes * row, table_block));
  launch(resample_backward_kernel<T>, grid, table_block, 0, s, g.outer, g.in, g.out, g.inner, g.taps, lanes, index, weight, dy, dx);
}

#define TROUPE_TABLE(T)                                                                                             \
  template void gather_rows(cudaStream_t, i64, i64, i64, const T*, const std::int32_t*, T*);                        \
  template void scatter_rows(cudaStream_t, i64, i64, i64, const T*, const std::int32_t*, T*);                       \
  template void resample(cudaStream_t, const resample_geometry&, const std::int32_t*, const double*, const T*, T*); \
  template void resample_backward(cudaStream_t, const resample_geometry&, const std::int32_t*, const double*, const T*, T*)
TROUPE_TABLE(float);
TROUPE_TABLE(double);
#undef TROUPE_TABLE

}  // namespace troupe::cuda::kernels
