// Both regions are sums over boxes of rows x columns in a matrix:
//   across channels   a matrix [channels, height width] per image, a box of `size` rows, 1 column
//   within a channel  a matrix [height, width] per channel, a box of size x size
// A block computes a tile of the matrix. It computes the addends (squares, or terms with a power)
// once for the tile and its border, in shared memory, piece by piece.
#include "ops/cuda/kernels/lrn.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/cuda/kernel_language.hpp"

namespace troupe::cuda::kernels {
namespace {

constexpr int lrn_tile_rows = 8, lrn_tile_columns = 32;  // a thread for each element
constexpr int lrn_threads = lrn_tile_rows * lrn_tile_columns;
constexpr int lrn_piece_rows = 16, lrn_piece_columns = 40;  // a tile with a border of 4 is one piece
constexpr std::int64_t lrn_most_blocks = 4096;

struct lrn_boxes {
  using plain = void;
  std::int64_t rows, columns;              // of a matrix
  std::int64_t row_radius, column_radius;  // of a box
  std::int64_t tiles_down, tiles_right, tiles;
  bool columns_first;  // a sum adds its columns, otherwise its rows; the order of the CPU
};
lrn_boxes lrn_boxes_of(const lrn_geometry& g) {
  const auto inner = g.height * g.width, radius = (g.size - 1) / 2;
  lrn_boxes b{};
  b.rows = g.across_channels ? g.channels : g.height, b.columns = g.across_channels ? inner : g.width;
  b.row_radius = radius, b.column_radius = g.across_channels ? 0 : radius;
  b.tiles_down = (b.rows + lrn_tile_rows - 1) / lrn_tile_rows;
  b.tiles_right = (b.columns + lrn_tile_columns - 1) / lrn_tile_columns;
  b.tiles = (g.across_channels ? g.batch : g.batch * g.channels) * b.tiles_down * b.tiles_right;
  b.columns_first = !g.across_channels && radius == 1;
  return b;
}

struct lrn_tile {
  std::int64_t matrix;     // its first element
  std::int64_t top, left;  // of the tile, in the matrix
};
__device__ lrn_tile lrn_tile_of(const lrn_boxes& b, std::int64_t i) {
  const auto row = i / b.tiles_right, matrix = row / b.tiles_down;
  return {matrix * b.rows * b.columns, (row - matrix * b.tiles_down) * lrn_tile_rows, (i - row * b.tiles_right) * lrn_tile_columns};
}

// Indices [first, end) of a piece.
struct lrn_range {
  int first, end;
};
// The part of the box around `at` that is in the piece [start, end).
__device__ lrn_range lrn_part(std::int64_t at, std::int64_t radius, std::int64_t start, std::int64_t end) {
  const auto low = at - radius, high = at + radius + 1;
  return {static_cast<int>(low > start ? low - start : 0), static_cast<int>((high < end ? high : end) - start)};
}

// Returns the sum of value(i) over the box of this thread's element; i is an index in the matrix.
// All threads of the block call it; value() is called for elements of the matrix only.
template <class T, class F>
__device__ T lrn_sum(const lrn_boxes& b, const lrn_tile& tile, F value) {
  TROUPE_SHARED(T, lrn_piece_rows * lrn_piece_columns, part);
  const int row = static_cast<int>(threadIdx.x) / lrn_tile_columns, column = static_cast<int>(threadIdx.x) % lrn_tile_columns;
  const auto first_y = tile.top > b.row_radius ? tile.top - b.row_radius : 0;
  const auto first_x = tile.left > b.column_radius ? tile.left - b.column_radius : 0;
  const auto below = tile.top + lrn_tile_rows + b.row_radius, beside = tile.left + lrn_tile_columns + b.column_radius;
  const auto end_y = below < b.rows ? below : b.rows, end_x = beside < b.columns ? beside : b.columns;
  T sum = 0;
  for (auto top = first_y; top < end_y; top += lrn_piece_rows) {
    for (auto left = first_x; left < end_x; left += lrn_piece_columns) {
      const auto bottom = top + lrn_piece_rows < end_y ? top + lrn_piece_rows : end_y;
      const auto right = left + lrn_piece_columns < end_x ? left + lrn_piece_columns : end_x;
      __syncthreads();  // the previous piece has been read
      for (auto y = top + row; y < bottom; y += lrn_tile_rows)
        for (auto x = left + column; x < right; x += lrn_tile_columns)
          part[static_cast<int>(y - top) * lrn_piece_columns + static_cast<int>(x - left)] = value(y * b.columns + x);
      __syncthreads();
      const auto rows = lrn_part(tile.top + row, b.row_radius, top, bottom);
      const auto columns = lrn_part(tile.left + column, b.column_radius, left, right);
      const auto outer = b.columns_first ? columns : rows, inner = b.columns_first ? rows : columns;
      const int outer_step = b.columns_first ? 1 : lrn_piece_columns, inner_step = b.columns_first ? lrn_piece_columns : 1;
      for (int o = outer.first; o < outer.end; ++o) {
        T line = 0;
        for (int i = inner.first; i < inner.end; ++i) {
          const T v = part[o * outer_step + i * inner_step];
          line += v;
        }
        sum += line;
      }
    }
  }
  return sum;
}

// The element of this thread in the matrix, or -1 if the tile extends beyond the matrix here.
__device__ std::int64_t lrn_own(const lrn_boxes& b, const lrn_tile& tile) {
  const auto y = tile.top + threadIdx.x / lrn_tile_columns, x = tile.left + threadIdx.x % lrn_tile_columns;
  return y < b.rows && x < b.columns ? y * b.columns + x : -1;
}

// scale^-beta for scale > 0.
template <class T>
__device__ T lrn_power(T scale, T beta) {
  if (beta == T(0.75)) {
    const T r = T(1) / std::sqrt(scale);
    return r * std::sqrt(r);
  }
  return std::exp(-beta * std::log(scale));
}

template <class T>
__global__ void __launch_bounds__(lrn_threads) lrn_kernel(lrn_boxes b, T share, T beta, T k, const T* x, T* y, T* scale) {
  for (std::int64_t i = blockIdx.x; i < b.tiles; i += gridDim.x) {
    const auto tile = lrn_tile_of(b, i);
    const T* in = x + tile.matrix;
    const T sum = lrn_sum<T>(b, tile, [in](std::int64_t at) {
      const T v = in[at];
      return v * v;
    });
    const auto own = lrn_own(b, tile);
    if (own < 0) continue;
    const T s = k + share * sum;
    scale[tile.matrix + own] = s;
    y[tile.matrix + own] = in[own] * lrn_power(s, beta);
  }
}

template <class T>
__global__ void __launch_bounds__(lrn_threads, 4)
    lrn_backward_kernel(lrn_boxes b, T factor, T beta, const T* x, const T* scale, const T* dy, T* dx) {
  for (std::int64_t i = blockIdx.x; i < b.tiles; i += gridDim.x) {
    const auto tile = lrn_tile_of(b, i);
    const T *in = x + tile.matrix, *scales = scale + tile.matrix, *slope = dy + tile.matrix;
    const T sum = lrn_sum<T>(b, tile, [in, scales, slope, beta](std::int64_t at) {
      const T s = scales[at];
      return slope[at] * lrn_power(s, beta) * in[at] / s;
    });
    const auto own = lrn_own(b, tile);
    if (own >= 0) dx[tile.matrix + own] = slope[own] * lrn_power(scales[own], beta) - factor * in[own] * sum;
  }
}

// alpha / |window|
double lrn_share(const lrn_geometry& g) { return g.alpha / static_cast<double>(g.across_channels ? g.size : g.size * g.size); }
unsigned lrn_blocks(const lrn_boxes& b) { return static_cast<unsigned>(std::min(b.tiles, lrn_most_blocks)); }

}  // namespace

template <class T>
void lrn(cudaStream_t s, const lrn_geometry& g, const T* x, T* y, T* scale) {
  const auto b = lrn_boxes_of(g);
  if (b.tiles == 0) return;
  launch(lrn_kernel<T>, lrn_blocks(b), lrn_threads, 0, s, b, static_cast<T>(lrn_share(g)), static_cast<T>(g.beta),
         static_cast<T>(g.k), x, y, scale);
}

template <class T>
void lrn_backward(cudaStream_t s, const lrn_geometry& g, const T* x, const T* scale, const T* dy, T* dx) {
  const auto b = lrn_boxes_of(g);
  if (b.tiles == 0) return;
  launch(lrn_backward_kernel<T>, lrn_blocks(b), lrn_threads, 0, s, b, static_cast<T>(2.0 * lrn_share(g) * g.beta),
         static_cast<T>(g.beta), x, scale, dy, dx);
}

template void lrn(cudaStream_t, const lrn_geometry&, const float*, float*, float*);
template void lrn(cudaStream_t, const lrn_geometry&, const double*, double*, double*);
template void lrn_backward(cudaStream_t, const lrn_geometry&, const float*, const float*, const float*, float*);
template void lrn_backward(cudaStream_t, const lrn_geometry&, const double*, const double*, const double*, double*);

}  // namespace troupe::cuda::kernels
