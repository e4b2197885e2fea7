// The table of CPU kernels. The files kernels_<isa>.cpp compile the same sources (*.inl) once per
// instruction set; a device selects a table when it is created. Kernels take plain pointers and
// counts, allocate nothing, and have no state.
//
// These files may be compiled for other instruction sets than the rest of the program. They must
// not emit inline functions that the linker could prefer to a portable copy, so they include only
// this header and <immintrin.h>.
#pragma once

#include <cstdint>

#include "ops/geometry.hpp"

namespace troupe::cpu {

using i64 = std::int64_t;
using half = std::uint16_t;  // the bits of a bf16

// Location of a panel's pixels in a staged image (conv_stage.hpp): `count` runs. Run r is
// `length[r]` pixels from column `column[r]` of the panel and element `offset[r]` of the stage on.
struct run_list {
  static constexpr int max_runs = 64;
  int count = 0;
  int column[max_runs];
  int length[max_runs];
  i64 offset[max_runs];
};

// The outputs [low, high) of a row for which a tap of the pooling window is inside the image.
struct tap_range {
  i64 low, high;
};

// y[feature][pixel] = bias + sum over k of w[k][feature] stage[k_offset[k] + pixel], or one stretch
// of that sum: `first` starts at zero, `last` writes y; intermediate sums are in `partial`
// [pixel][vectors x lanes]. Splitting into stretches does not change the order of additions.
template <class T>
struct direct_sum {
  i64 k_count;
  const std::int32_t* k_offset;
  const T* w;
  const T* bias;
  i64 features, plane;  // features of the block; pixels of an output plane
  bool first, last;
};

// The pixels that the gradient of the weights is summed over (direct.inl), and their layout in the
// stage.
struct direct_block {
  i64 images, rows, width;
  i64 image_step, row_step;  // in the stage
};
// Maximum number of adjacent taps per run and of runs per call, and the number of runs whose sums
// fit into registers.
constexpr int direct_taps = 5, direct_max_runs = 8;
constexpr int direct_groups(int vectors, int taps) {
  constexpr int groups[2][direct_taps] = {{8, 6, 6, 5, 5}, {8, 5, 4, 3, 2}};
  return groups[vectors - 1][taps - 1];
}

// The part of a panel in one row of tiles: `length` pixels of each of `rows` rows, from element
// `at` of y and pixel `column` of the panel on.
struct tile_piece {
  i64 at;
  int column, length, rows;
};

// A product over vectors of images (batch.inl): `k_count` elements at k_offset. The second place is
// `from_step` and `to_step` after the first. `add`: adds to the existing values.
template <class T>
struct batch_product {
  i64 k_count;
  const std::int32_t* k_offset;
  i64 from_step, to_step;
  bool add;
};
// A sum over all pixels of vectors of images: steps in x, and the distance of two planes of dy.
struct batch_sum {
  i64 rows, width, row_step, step, plane;
};

// Position of a tile among the tiles of its image.
struct tile_place {
  i64 column, row, across, down;
};

// winograd.inl: F(M x M, R x R) over rows of tiles. Each tile has parts() results, `apart` elements
// apart.
template <class T>
struct winograd_form {
  int tile, kernel;  // M, R
  int patch() const { return tile + kernel - 1; }
  int parts() const { return patch() * patch(); }
  int reach() const { return (patch() - 1) / tile; }  // number of neighbouring tiles that a patch extends into
  // Splits rows of pixels into every M-th pixel. with_shifts: also each shifted by up to reach()
  // columns.
  void (*split)(i64 rows, i64 step, i64 width, i64 across, const T* from, T* to, i64 gap);
  void (*split_with_shifts)(i64 rows, i64 step, i64 width, i64 across, const T* from, T* to, i64 gap);
  // B^T d B of tiles of one image, from pixels split with shifts (input), or of tiles of several
  // images with padding (R - 1) / 2, from pixels split without shifts (split_input). gradient: A d
  // A^T of patches of M rows of M pixels.
  void (*input)(i64 tiles, const T* p, i64 across, i64 gap, T* to, i64 apart);
  void (*split_input)(i64 tiles, const tile_place& first, const T* p, i64 gap, T* to, i64 apart);
  void (*gradient)(i64 tiles, const T* p, i64 gap, T* to, i64 apart);
  // One panel: writes A^T m A + bias to rows of pixels that are `stride` apart.
  void (*output)(const T* m, i64 apart, T bias, const tile_piece* pieces, int count, i64 stride, T* y);
  // One panel: writes B m B^T to a grid of tiles (patches), and sums such overlapping patches into
  // rows of pixels, the rows of a tile `gap` apart (overlap).
  void (*patches)(const T* m, i64 apart, const tile_piece* pieces, int count, T* to, i64 plane);
  void (*overlap)(i64 n, const T* patches, i64 plane, i64 pitch, T* to, i64 gap);
  // n adjacent kernels, with tap t of each at t * stride: G g G^T, and its adjoint G^T u G.
  void (*weights)(i64 n, const T* taps, i64 stride, T* to, i64 apart);
  void (*weights_gradient)(i64 n, const T* u, i64 apart, T* taps, i64 stride);
};

template <class T>
struct kernels {
  // elementwise.inl
  void (*fill)(i64 n, T value, T* x);
  void (*axpy)(i64 n, T a, const T* x, T* y);
  void (*scale)(i64 n, T a, T* x);
  void (*apply)(int op, i64 n, const T* x, const T* y, T* out);
  void (*add_bias)(i64 outer, i64 channels, i64 inner, const T* bias, T* y);
  void (*reduce_sum)(i64 outer, i64 mid, i64 inner, const T* x, T* out);
  double (*sum_squares)(i64 n, const T* x);
  void (*map)(int f, T parameter, i64 n, const T* x, T* y);
  void (*map_backward)(int f, T parameter, i64 n, const T* x, const T* y, const T* dy, T* dx);
  void (*select_equal)(i64 n, const T* x, const T* y, const T* dy, T* dx);

  // channel.inl. Optional arguments of blend may be null.
  void (*reduce_product)(i64 outer, i64 mid, i64 inner, const T* x, const T* y, T* out);
  void (*blend)(i64 outer, i64 mid, i64 inner, const T* x, const T* a, const T* y, const T* b, const T* shift, T* out);
  void (*gather_rows)(i64 rows, i64 vocabulary, i64 length, const T* table, const std::int32_t* ids, T* out);
  void (*scatter_rows)(i64 rows, i64 vocabulary, i64 length, const T* x, const std::int32_t* ids, T* table);
  void (*resample)(const resample_geometry& g, const T* x, T* y);
  void (*resample_backward)(const resample_geometry& g, const T* dy, T* dx);

  // norm.inl. w and b may be null. table: 4 mid elements; sums and spare: 2 mid each.
  void (*moments)(i64 outer, i64 mid, i64 inner, const T* x, T* mean, T* variance);
  void (*norm_forward)(const norm_geometry& g, const T* x, const T* w, const T* b, T* variance, T* table, T* y);
  void (*norm_table)(const norm_geometry& g, const T* mean, const T* variance, const T* w, const T* b, T* table);
  void (*norm_apply)(const norm_geometry& g, const T* x, const T* table, T* y);
  void (*norm_sums)(const norm_geometry& g, const T* x, const T* table, const T* dy, T* sums);
  void (*norm_slope)(const norm_geometry& g, const T* x, const T* table, const T* sums, double count, const T* dy, T* dx, T* spare);
  void (*norm_backward)(const norm_geometry& g, const T* x, const T* table, const T* dy, T* sums, T* dx, T* spare);

  // update.inl. `v_out` null: no momentum. `in`, `out`: the states of the rule, in the order of
  // device::adaptive_update.
  void (*sgd)(const sgd_spec& s, i64 n, const T* w, const T* g, const T* v, T* w_out, T* v_out);
  void (*adaptive)(const adaptive_spec& s, i64 n, const T* w, const T* g, const T* const* in, T* w_out, T* const* out);

  // pool.inl. `scratch`: two rows of the image with both borders, and slack (cpu_device.cpp).
  void (*max_pool)(const pool_geometry& g, const T* x, T* y, std::int32_t* index, T* scratch);
  void (*max_pool_backward)(const pool_geometry& g, const T* dy, const std::int32_t* index, T* dx);
  // columns: the extent of each output's window along its row. `scratch`: width + out_w elements.
  void (*avg_pool)(const pool_geometry& g, const tap_range* taps, const T* columns, const T* x, T* y, T* scratch);
  void (*avg_pool_backward)(const pool_geometry& g, const tap_range* taps, const T* columns, const T* dy, T* dx, T* scratch);

  // lrn.inl. `scratch`: lrn_scratch(g) elements (cpu_device.cpp).
  void (*lrn)(const lrn_geometry& g, const T* x, T* y, T* scale, T* scratch);
  void (*lrn_backward)(const lrn_geometry& g, const T* x, const T* scale, const T* dy, T* dx, T* scratch);

  // loss.inl
  // weights: [classes], or null.
  double (*softmax_loss)(double smoothing, const T* weights, i64 rows, i64 classes, const T* x, const std::int32_t* labels,
                         T* probability);
  void (*softmax_loss_backward)(double smoothing, const T* weights, i64 rows, i64 classes, T dloss, const T* probability,
                                const std::int32_t* labels, T* dx);
  void (*softmax)(i64 outer, i64 classes, i64 inner, const T* x, T* y);
  void (*softmax_backward)(i64 outer, i64 classes, i64 inner, const T* y, const T* dy, T* dx);
  // Either targets or labels is null.
  double (*pointwise_loss)(int f, i64 rows, i64 classes, const T* x, const T* targets, const std::int32_t* labels, T* slope);
  double (*top_k)(i64 k, i64 rows, i64 classes, const T* x, const std::int32_t* labels);

  // random.inl
  void (*dropout)(const rng_stream& s, std::uint64_t first_example, double ratio, i64 rows, i64 row_length, const T* x, T* y);
  void (*sample)(bool gaussian, const rng_stream& s, std::uint64_t first_example, i64 rows, i64 row_length, const T* x, T* y);
  void (*fill_uniform)(const rng_stream& s, double low, double high, i64 n, T* x);
  void (*fill_gaussian)(const rng_stream& s, double mean, double deviation, i64 n, T* x);

  // cell.inl. Pointers as the tensors of device::cell_forward and cell_backward.
  void (*cell_forward)(const cell_spec& s, const T* bias, T* gates, const T* h_before, const T* c_before, T* c, T* h, T* y);
  void (*cell_backward)(const cell_spec& s, const T* gates, const T* h_before, const T* h, const T* c_before, const T* c,
                        const T* dy, T* dh, T* dc, T* dgates);

  // product.inl. `packed`: k_count x (n rounded up to panel_width) elements, and slack. `scratch`:
  // product_scratch elements.
  i64 product_scratch;
  void (*pack_panels)(bool transposed, i64 k_count, i64 n, const T* b, i64 ldb, T* packed);
  void (*product)(bool transpose_a, i64 m, i64 n, i64 k_count, const T* a, i64 lda, const T* packed, T* c, i64 ldc, bool add,
                  T* scratch);

  // tile.inl: the parts of convolution. A panel is [k][panel_width] elements: panel_width adjacent
  // pixels. Buffers that are accessed in whole vectors have `slack` spare elements at their end.
  int panel_width;            // pixels
  int tile_rows;              // maximum number of rows of a product tile
  int dot_rows, dot_columns;  // maximum number of rows and columns of a dot tile
  int slack;
  void (*take_strided)(i64 n, i64 stride, const T* from, T* to);                             // to[i] = from[i stride]
  void (*put_strided)(i64 n, i64 stride, const T* from, T* to);                              // to[i stride] = from[i]
  void (*copy_rows)(i64 rows, i64 n, const T* from, i64 from_stride, T* to, i64 to_stride);  // n elements of each row
  void (*copy_panel)(i64 rows, const T* from, i64 stride, T* panel);                         // rows of exactly panel_width elements
  void (*gather_panel)(const run_list& runs, i64 k_count, const std::int32_t* k_offset, const T* stage, T* panel);
  void (*scatter_panel)(const run_list& runs, i64 k_count, const std::int32_t* k_offset, const T* panel, T* stage);  // adds
  // c[rows][panel_width] (row stride ldc) = a [k][rows] times panel [k][panel_width], plus
  // bias[row] unless bias is null.
  void (*tile)(int rows, i64 k_count, const T* a, const T* panel, const T* bias, T* c, i64 ldc);
  // c[i][j] += sum over `panels` panels and their pixels of a[panel][i][pixel] b[panel][j][pixel].
  void (*dot)(int rows, int columns, i64 panels, const T* a, i64 a_stride, const T* b, i64 b_stride, T* c, i64 ldc);

  // direct.inl: vectors of output features. A block is `vectors` (1 or 2) x lanes features.
  int lanes;
  void (*transpose_matrix)(i64 rows, i64 columns, const T* from, i64 from_stride, T* to, i64 to_stride);
  // Computes `pixels` (at most tile_rows) of an output row; `stage` points to the first.
  void (*direct)(int vectors, int pixels, const direct_sum<T>& s, const T* stage, T* partial, T* y);
  void (*direct_weights)(int vectors, int taps, const direct_block& b, const T* dy, const T* stage, const i64* offset,
                         T* const* to);

  // batch.inl: vectors of images.
  void (*batch_tile)(int rows, int places, const batch_product<T>& s, const T* a, const T* bias, const T* v,
                     const std::int32_t* to_offset, T* to);
  void (*batch_pool)(const pool_geometry& g, const T* x, T* y, std::int32_t* index);
  void (*batch_pool_backward)(const pool_geometry& g, const T* dy, const std::int32_t* index, T* dx);
  void (*batch_dot)(int rows, int columns, const batch_sum& s, const T* dy, const T* x, const std::int32_t* offset, T* c, i64 ldc);

  // winograd.inl
  winograd_form<T> winograd2x3, winograd2x5, winograd4x3;
};

constexpr i64 half_strip = 64;
// half.inl: bf16, as bits. Other primitives widen bf16 for kernels<float>, piece by piece
// (bf16_device.cpp).
struct half_kernels {
  void (*widen)(i64 n, const half* x, float* y);
  void (*narrow)(i64 n, const float* x, half* y);
  void (*relu)(i64 n, const half* x, half* y);
  void (*relu_backward)(i64 n, const half* y, const half* dy, half* dx);
  void (*reduce_sum)(i64 outer, i64 mid, i64 inner, const half* x, float* out);
  // Across channels only. `scratch`: 2 channels half_strip elements.
  void (*lrn)(const lrn_geometry& g, const half* x, half* y, half* scale, float* scratch);
  void (*lrn_backward)(const lrn_geometry& g, const half* x, const half* scale, const half* dy, half* dx, float* scratch);
  // Return false if they do not support the geometry.
  bool (*max_pool)(const pool_geometry& g, const half* x, half* y, std::int32_t* index);
  bool (*max_pool_backward)(const pool_geometry& g, const half* dy, const std::int32_t* index, half* dx);
};

struct kernel_set {
  const char* isa;
  kernels<float> f32;
  kernels<double> f64;
  half_kernels bf16;
};

// Null if the compiler or the machine does not support the instruction set.
const kernel_set* kernels_baseline();
const kernel_set* kernels_v3();
const kernel_set* kernels_v4();

}  // namespace troupe::cpu
