// Kernels for processors with AMX (Intel, 2021: tiles of 16 rows of 64 bytes, TDPBF16PS): bf16
// products with f32 sums, and packing of matrices into tiles. A tile of a left factor is [16
// rows][32 elements of the sum], of a right factor [16 pairs of elements of the sum][16
// columns][2].
//
// kernels_amx.cpp includes only this header and <immintrin.h>; kernels.hpp gives the reason.
// Products are accumulated in the order of the steps. Denormal numbers count as zero, as inputs and
// as results.
// Threads: each thread has its own tile registers. begin() and end() enclose products on one
// thread; no other code that uses tiles may run in between.
#pragma once

#include <cstdint>

namespace troupe::cpu {

using i64 = std::int64_t;

inline constexpr int tile_rows_amx = 16;                        // rows of a left tile and of a result; columns of a right tile
inline constexpr int tile_sum = 32;                             // maximum number of elements of the sum per step
inline constexpr i64 tile_elements = tile_rows_amx * tile_sum;  // bf16 elements of a packed tile

// Location of one factor's tiles, in bytes from `at`. Step s is at offset[s], or at s * step if
// offset is null. The adjacent second tile is `next` further on. Rows are `stride` apart.
struct tile_walk {
  const void* at;
  i64 stride, next, step;
  const i64* offset;
};

// A matrix to pack: op(from)[rows][columns]. ld: row stride in elements.
struct pack_source {
  const void* from;
  i64 ld;
  bool f32;         // false: bf16
  bool transposed;  // op(from)[i][j] = from[j][i]
};

struct amx_kernels {
  // Configures the tiles for steps of `sum` elements (even, at most tile_sum), until end().
  void (*begin)(int sum);
  void (*end)();
  // c[16 m_tiles][16 n_tiles] = (add ? c : 0) + the sum of the tile products over `steps`. m_tiles
  // and n_tiles are 1 or 2. ldc: in elements.
  void (*product)(int m_tiles, int n_tiles, int steps, const tile_walk& a, const tile_walk& b, float* c, i64 ldc, bool add);

  // Packs the left factor's tiles of up to 16 rows of op(from)[rows][sum], step by step. Missing
  // elements are zero.
  void (*pack_left)(const pack_source& s, i64 rows, i64 sum, void* to);
  // Packs the right factor's tiles of up to 16 columns of op(from)[sum][columns].
  void (*pack_right)(const pack_source& s, i64 sum, i64 columns, void* to);
  // Packs the right factor of a matrix that is not transposed: rows in pairs, up to whole tiles,
  // columns up to a multiple of 16. Missing elements are zero. Pairs of rows are row_bytes apart.
  void (*pair_rows)(const pack_source& s, i64 sum, i64 columns, i64 row_bytes, void* to);
  // to[2 i] = p[i], to[2 i + 1] = q[i], or 0 if q is null.
  void (*interleave)(i64 n, const std::uint16_t* p, const std::uint16_t* q, std::uint16_t* to);
  // to[i] = (add ? to[i] : 0) + alpha from[i] + bias. f32: type of `to`, otherwise bf16.
  void (*finish)(i64 n, const float* from, float alpha, float bias, bool add, bool f32, void* to);
  // to = from + bias, for each of `rows` rows.
  void (*finish_rows)(i64 rows, i64 n, const float* from, i64 from_stride, float bias, bool f32, void* to, i64 to_stride);
  void (*copy_rows)(i64 rows, i64 n, const std::uint16_t* from, i64 from_stride, std::uint16_t* to, i64 to_stride);
  // Copies with non-temporal stores. `to` and its rows are aligned to 64 bytes, n is a multiple of
  // 16. Visible to other threads after fence().
  void (*stream)(i64 rows, i64 n, const float* from, i64 from_stride, float* to, i64 to_stride);
  void (*fence)();
};

// Null if the compiler, the processor or the operating system does not support AMX. Requests
// permission from the operating system once.
const amx_kernels* amx();
const amx_kernels* compiled_amx();  // the kernels of kernels_amx.cpp, even if this machine cannot run them

}  // namespace troupe::cpu
