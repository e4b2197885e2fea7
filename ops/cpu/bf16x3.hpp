// f32 products on the bf16 matrix unit (AMX). An f32 number is the sum of three bf16 numbers, x =
// x1 + x2 + x3, each the rest rounded to 8 bits; this is exact except below the range of f32. Of
// the nine products of the parts of two numbers, these six are computed, each exactly, and added in
// f32:
//   w1 x1, w1 x2, w2 x1, w2 x2, w1 x3, w3 x1
// The other three are below 2^-25 of the whole, so the error is that of f32 instructions, at 2.7
// times their peak rate. Infinite numbers and those within 2^-8 of the largest become NaN; those
// below 2^-126 count as zero.
//   Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for
//   higher-precision computations"
//
// A tile has 16 rows of 64 bytes. A unit is a pair of bf16 in 32 bits, the first in the low half:
// the matrix unit processes two at a time. Tiles and their rows should be aligned to 64 bytes;
// otherwise each row takes three times as long.
#pragma once

#include <cstdint>

#include "ops/cpu/kernels.hpp"

namespace troupe::cpu {

using bf16_pair = std::uint32_t;  // a unit

// c[16][16] of some tiles: sums over steps of three tiles of weights [16 results][32] with two
// tiles of places [16 pairs][16 places]:
//   [w1 w1] and [w2 w2] times [x2 x1]; [w3 w1] times [x1 x3], which starts 8 rows later
struct bf16x3_sum {
  i64 steps;
  const i64* offset;             // of each step's places, in units
  const std::uint16_t* weights;  // [steps][3][16][32]
  i64 row;                       // units between rows of places
};

// Mapping from the elements of a row of a plane to the units of a padded row. If `from` is null,
// the `width` elements are consecutive from unit `pad` on, and `count` has room for them in whole
// vectors. Units before and after them are unchanged.
struct bf16x3_row {
  i64 count;  // units, a multiple of 16
  i64 width, pad;
  const std::int32_t* from;  // element of each unit, relative to the row's first; negative: zero
};

// Gradient of the weights of up to three taps: adds to c[tap][16 outputs][16 channels]. Sums over
// sets, rows and pieces of 16 units. Distances between sets, rows, parts, and (dy) rows of a tile
// are in units; the rows of x are adjacent.
struct bf16x3_dot {
  i64 sets, rows, across;
  i64 dy_set, dy_row, dy_part, dy_stride;
  i64 x_set, x_row, x_part;
};

struct bf16x3_kernels {
  // begin() and end() enclose all use of tiles, on the same thread.
  void (*begin)();
  void (*end)();
  // tiles: 1 to 4. Writes tile t to to[t], with rows to_row[t] elements apart.
  void (*tiles)(int tiles, const bf16x3_sum& s, const bf16_pair* const* places, float* const* to, const i64* to_row);
  // One set of places for several columns of taps (1 to 5), whose results are to be shifted against
  // each other. weights [steps][columns][3][16][32]; column k is written to to + k apart.
  void (*moved)(int columns, const bf16x3_sum& s, const bf16_pair* places, float* to, i64 apart, i64 to_row);
  // y[r][i] = bias[r] + sum over columns k of x[k][r][from[k] + i], i < n. Reads x in whole
  // vectors.
  void (*add_moved)(int columns, const i64* from, int rows, i64 n, const float* x, i64 apart, i64 x_row, const float* bias,
                    float* y, i64 y_row);
  // Weights of 16 results and 16 channels, `output_step` and `channel_step` elements apart, as
  // [3][16][32]. Elements beyond the counts are zero.
  void (*weights)(int outputs, int channels, const float* w, i64 output_step, i64 channel_step, std::uint16_t* to);
  // A row of up to 16 planes, `plane` elements apart, as rows of pairs [x2: 8][x1: 8][x3: 8][count
  // units].
  void (*pairs)(const bf16x3_row& r, int planes, const float* x, i64 plane, bf16_pair* to);
  // Copies rows of `count` units, starting at unit from[j] of rows of `length` units, to adjacent
  // rows, one copy per j.
  void (*shifts)(int copies, const i64* from, i64 rows, i64 length, i64 count, const bf16_pair* x, bf16_pair* to);
  // A row of up to 16 planes of two images (b may be null) as units of both, in parts `part` units
  // apart, each [plane][count].
  void (*images)(const bf16x3_row& r, int planes, const float* a, const float* b, i64 plane, bf16_pair* to, i64 part);
  // The same, each part [count][16 planes].
  void (*images_turned)(const bf16x3_row& r, int planes, const float* a, const float* b, i64 plane, bf16_pair* to, i64 part);
  void (*dot)(int taps, const bf16x3_dot& s, const bf16_pair* dy, const bf16_pair* const* x, float* const* c);
  // Writes elements pick[i] of rows of 16, i < n, plus bias (may be null), to elements `step` apart
  // in rows `plane` apart.
  void (*put)(int rows, const float* c, const std::int32_t* pick, i64 n, const float* bias, float* y, i64 plane, i64 step);
};

// Null if the compiler, the processor or the operating system does not support it.
const bf16x3_kernels* bf16x3_compiled();
const bf16x3_kernels* bf16x3_here();

}  // namespace troupe::cpu
