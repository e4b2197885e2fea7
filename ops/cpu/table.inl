// Defines a kernel_set from the sources. kernels_<isa>.cpp includes this file inside its unnamed
// namespace, after defining these macros. The blank lines between the includes preserve their
// order.
//   TROUPE_VECTOR_BYTES  width of a register
//   TROUPE_TILE_ROWS     14 with 32 registers, 6 with 16
#include "ops/cpu/maths.inl"
#include "ops/cpu/vector.inl"

#include "ops/cpu/cell.inl"
#include "ops/cpu/elementwise.inl"
#include "ops/cpu/tile.inl"

#include "ops/cpu/pool2.inl"

#include "ops/cpu/channel.inl"
#include "ops/cpu/direct.inl"
#include "ops/cpu/loss.inl"
#include "ops/cpu/lrn.inl"
#include "ops/cpu/norm.inl"
#include "ops/cpu/pool.inl"
#include "ops/cpu/product.inl"
#include "ops/cpu/random.inl"

#include "ops/cpu/batch.inl"
#include "ops/cpu/update.inl"
#include "ops/cpu/winograd_transforms.inl"

#include "ops/cpu/winograd.inl"

#include "ops/cpu/half.inl"

// size: one line per kernel, in the order of the table
template <class T>
constexpr kernels<T> make_table() {
  kernels<T> t{};
  t.fill = fill<T>;
  t.axpy = axpy<T>;
  t.scale = scale<T>;
  t.apply = apply<T>;
  t.add_bias = add_bias<T>;
  t.reduce_sum = reduce_sum<T>;
  t.sum_squares = sum_squares<T>;
  t.map = map<T>;
  t.map_backward = map_backward<T>;
  t.select_equal = select_equal<T>;
  t.reduce_product = reduce_product<T>;
  t.moments = moments<T>;
  t.blend = blend<T>;
  t.gather_rows = gather_rows<T>;
  t.scatter_rows = scatter_rows<T>;
  t.resample = resample<T>;
  t.resample_backward = resample_backward<T>;
  t.norm_forward = norm_forward<T>;
  t.norm_table = norm_table_all<T>;
  t.norm_apply = norm_apply<T>;
  t.norm_sums = norm_sums<T>;
  t.norm_slope = norm_slope<T>;
  t.norm_backward = norm_backward<T>;
  t.sgd = sgd<T>;
  t.adaptive = adaptive<T>;
  t.max_pool = max_pool<T>;
  t.max_pool_backward = max_pool_backward<T>;
  t.avg_pool = avg_pool<T>;
  t.avg_pool_backward = avg_pool_backward<T>;
  t.lrn = lrn<T>;
  t.lrn_backward = lrn_backward<T>;
  t.softmax_loss = softmax_loss<T>;
  t.softmax_loss_backward = softmax_loss_backward<T>;
  t.softmax = softmax<T>;
  t.softmax_backward = softmax_backward<T>;
  t.pointwise_loss = pointwise_loss<T>;
  t.top_k = top_k<T>;
  t.dropout = dropout<T>;
  t.sample = sample<T>;
  t.fill_uniform = fill_uniform<T>;
  t.fill_gaussian = fill_gaussian<T>;
  t.cell_forward = cell_forward<T>;
  t.cell_backward = cell_backward<T>;
  t.product_scratch = i64{product_tiles} * TROUPE_TILE_ROWS * product_depth + 2 * lanes_of<T>;
  t.pack_panels = pack_panels<T>;
  t.product = product<T>;
  t.panel_width = panel_of<T>;
  t.tile_rows = TROUPE_TILE_ROWS;
  t.dot_rows = 4;
  t.dot_columns = TROUPE_TILE_ROWS == 14 ? 6 : 2;
  t.slack = 2 * lanes_of<T>;
  t.take_strided = take_strided<T>;
  t.put_strided = put_strided<T>;
  t.copy_rows = copy_rows<T>;
  t.copy_panel = copy_panel<T>;
  t.gather_panel = gather_panel<T>;
  t.scatter_panel = scatter_panel<T>;
  t.tile = tile<T>;
  t.dot = dot<T>;
  t.lanes = lanes_of<T>;
  if constexpr (sizeof(T) == 4) {  // f64 is for checks and uses lowering
    t.transpose_matrix = transpose_matrix<T>;
    t.direct = direct<T>;
    t.direct_weights = direct_weights<T>;
    t.batch_tile = batch_tile<T>;
    t.batch_dot = batch_dot<T>;
    t.batch_pool = batch_pool<T>;
    t.batch_pool_backward = batch_pool_backward<T>;
    t.winograd2x3 = winograd_of<T, 2, 3>();
    t.winograd2x5 = winograd_of<T, 2, 5>();
    t.winograd4x3 = winograd_of<T, 4, 3>();
  }
  return t;
}

constexpr half_kernels make_half_table() {
  half_kernels t{};
  t.widen = widen;
  t.narrow = narrow;
  t.relu = relu_half;
  t.relu_backward = relu_backward_half;
  t.reduce_sum = reduce_sum_half;
  t.lrn = lrn_half;
  t.lrn_backward = lrn_backward_half;
  t.max_pool = max_pool_half;
  t.max_pool_backward = max_pool_backward_half;
  return t;
}
