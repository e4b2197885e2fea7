// Kernels for processors with AMX (Intel, 2021: tiles of 16 rows of 64 bytes, TDPBF16PS): products
// of bf16 with sums in f32, and what lays matrices out for them. A tile of a left factor is [16
// rows][32 of the sum], of a right factor [16 pairs of the sum][16 columns][2].
//
// kernels_amx.cpp includes this header and <immintrin.h> and nothing else, for the reason that
// kernels.hpp gives. Sums are made step by step in the order of the steps; denormal numbers count
// as zeros, in and out.
// Threads: the tile registers are the thread's own: begin() and end() around products, on one
// thread, with nothing between that may use tiles too.
#pragma once

#include <cstdint>

namespace troupe::cpu {

using i64 = std::int64_t;

inline constexpr int tile_rows_amx = 16;                        // of a left tile and of a result; columns of a right one
inline constexpr int tile_sum = 32;                             // most elements of the sum in one step
inline constexpr i64 tile_elements = tile_rows_amx * tile_sum;  // bf16, of a packed tile

// Where the tiles of one factor lie, in bytes from `at`: of step s at `offset`[s] (null: s * step),
// the second tile beside it `next` further on, rows `stride` apart.
struct tile_walk {
  const void* at;
  i64 stride, next, step;
  const i64* offset;
};

// A matrix to be packed: op(from)[rows][columns], row stride ld in elements.
struct pack_source {
  const void* from;
  i64 ld;
  bool f32;         // else bf16
  bool transposed;  // op(from)[i][j] = from[j][i]
};

struct amx_kernels {
  // Tiles for steps of `sum` elements (even, at most tile_sum) until end().
  void (*begin)(int sum);
  void (*end)();
  // c[16 m_tiles][16 n_tiles] = (add ? c : 0) + the sum over `steps` of the products of their
  // tiles; each 1 or 2 tiles. ldc: elements.
  void (*product)(int m_tiles, int n_tiles, int steps, const tile_walk& a, const tile_walk& b, float* c, i64 ldc, bool add);

  // The left factor's tiles for up to 16 rows of op(from)[rows][sum], step after step; what is
  // missing of a tile is zeros.
  void (*pack_left)(const pack_source& s, i64 rows, i64 sum, void* to);
  // The right factor's tiles for up to 16 columns of op(from)[sum][columns].
  void (*pack_right)(const pack_source& s, i64 sum, i64 columns, void* to);
  // The right factor's rows of a matrix that is not transposed, two and two as pairs, as many as
  // whole tiles have: what is missing is zeros. Columns up to a multiple of 16; the pairs of rows
  // lie row_bytes apart.
  void (*pair_rows)(const pack_source& s, i64 sum, i64 columns, i64 row_bytes, void* to);
  // to[2 i] = p[i], to[2 i + 1] = q[i] (0 where q is null).
  void (*interleave)(i64 n, const std::uint16_t* p, const std::uint16_t* q, std::uint16_t* to);
  // to[i] = (add ? to[i] : 0) + alpha from[i] + bias, to: f32 or bf16
  void (*finish)(i64 n, const float* from, float alpha, float bias, bool add, bool f32, void* to);
  // The same, from + bias, of each of `rows` rows.
  void (*finish_rows)(i64 rows, i64 n, const float* from, i64 from_stride, float bias, bool f32, void* to, i64 to_stride);
  void (*copy_rows)(i64 rows, i64 n, const std::uint16_t* from, i64 from_stride, std::uint16_t* to, i64 to_stride);
  // Copies past the caches; `to` and its rows aligned to 64 bytes, n a multiple of 16. Seen by
  // other threads after fence().
  void (*stream)(i64 rows, i64 n, const float* from, i64 from_stride, float* to, i64 to_stride);
  void (*fence)();
};

// Null where the compiler, the processor or the operating system cannot. Asks the operating system
// once.
const amx_kernels* amx();
const amx_kernels* compiled_amx();  // what kernels_amx.cpp has, whether this machine can run it or not

}  // namespace troupe::cpu
