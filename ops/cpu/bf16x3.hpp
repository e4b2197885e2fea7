// Products of f32 by the matrix unit for bf16 (AMX). A number of f32 is the sum of three of bf16, x
// = x1 + x2 + x3, each what is left rounded to 8 bits: exactly, but for what is too small for f32
// anyway. Of the nine products of such parts of two numbers the six
//   w1 x1, w1 x2, w2 x1, w2 x2, w1 x3, w3 x1
// are made, each exact, and summed in f32; the three others are below 2^-25 of the whole. So results are as far from the true ones as those of f32's own
// instructions, and come at 2.7 times their peak. What is infinite or within 2^-8 of the largest number becomes NaN; below 2^-126 counts as zero.
//   Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision computations"
//
// A tile is 16 rows of 64 bytes. A unit is a pair of bf16 in 32 bits, the first in the low half:
// what the matrix unit takes two at a time. Tiles should begin at multiples of 64 bytes, and so
// should their rows: else each row takes as long as three.
#pragma once

#include <cstdint>

#include "ops/cpu/kernels.hpp"

namespace troupe::cpu {

using bf16_pair = std::uint32_t;  // a unit

// c[16][16] of some tiles: sums over steps of three tiles of weights [16 results][32] with two of
// places [16 pairs][16 places]:
//   [w1 w1] [w2 w2] meet [x2 x1], [w3 w1] meets [x1 x3], which begins 8 rows later
struct bf16x3_sum {
  i64 steps;
  const i64* offset;             // of each step's places, in units
  const std::uint16_t* weights;  // [steps][3][16][32]
  i64 row;                       // units between rows of places
};

// Which elements of a row of a plane become which units of a padded one. Where `from` is null, all
// `width` lie side by side from unit `pad` on, and `count` leaves room for them in whole vectors;
// units before and behind them are left as they are.
struct bf16x3_row {
  i64 count;  // units, a multiple of 16
  i64 width, pad;
  const std::int32_t* from;  // the element of each unit, counted from the row's first; negative: zero
};

// The gradient of weights, of up to three taps: c[tap][16 outputs][16 channels], added to. Sums
// over sets, rows and pieces of 16 units of them, of which the distances to the next, to the next
// part, and (dy) between rows of a tile are given in units; x's rows lie side by side.
struct bf16x3_dot {
  i64 sets, rows, across;
  i64 dy_set, dy_row, dy_part, dy_stride;
  i64 x_set, x_row, x_part;
};

struct bf16x3_kernels {
  // Around everything that uses tiles, on the same thread.
  void (*begin)();
  void (*end)();
  // tiles: 1 to 4. Tile t is written to to[t], its rows `to_row[t]` elements apart.
  void (*tiles)(int tiles, const bf16x3_sum& s, const bf16_pair* const* places, float* const* to, const i64* to_row);
  // The same places for several columns of taps (1 to 5), whose results are to be moved against
  // each other: weights [steps][columns][3][16][32], c of column k at to + k apart.
  void (*moved)(int columns, const bf16x3_sum& s, const bf16_pair* places, float* to, i64 apart, i64 to_row);
  // y[r][i] = bias[r] + sum over columns k of x[k][r][from[k] + i], i < n; x is read in whole
  // vectors.
  void (*add_moved)(int columns, const i64* from, int rows, i64 n, const float* x, i64 apart, i64 x_row, const float* bias,
                    float* y, i64 y_row);
  // 16 results of 16 channels, elements `channel_step` and `output_step` apart (what is beyond the
  // counts: zero), as [3][16][32].
  void (*weights)(int outputs, int channels, const float* w, i64 output_step, i64 channel_step, std::uint16_t* to);
  // A row of up to 16 planes, `plane` elements apart, as rows of pairs [x2: 8][x1: 8][x3: 8][count
  // units].
  void (*pairs)(const bf16x3_row& r, int planes, const float* x, i64 plane, bf16_pair* to);
  // shifts: rows of `count` units, beginning at unit from[j] of rows of `length`, to rows side by
  // side, copy after copy.
  void (*shifts)(int copies, const i64* from, i64 rows, i64 length, i64 count, const bf16_pair* x, bf16_pair* to);
  // A row of up to 16 planes of two images (b may be null), as units of both: parts `part` units
  // apart, each [plane][count] ...
  void (*images)(const bf16x3_row& r, int planes, const float* a, const float* b, i64 plane, bf16_pair* to, i64 part);
  // ... or [count][16 planes].
  void (*images_turned)(const bf16x3_row& r, int planes, const float* a, const float* b, i64 plane, bf16_pair* to, i64 part);
  void (*dot)(int taps, const bf16x3_dot& s, const bf16_pair* dy, const bf16_pair* const* x, float* const* c);
  // Lanes pick[i] of rows of 16, i < n, plus bias (may be null), to elements `step` apart of rows
  // `plane` apart.
  void (*put)(int rows, const float* c, const std::int32_t* pick, i64 n, const float* bias, float* y, i64 plane, i64 step);
};

// Null where the compiler, the processor or the kernel cannot.
const bf16x3_kernels* bf16x3_compiled();
const bf16x3_kernels* bf16x3_here();

}  // namespace troupe::cpu
