// A device: where tensors lie and what can be done to them. Layers, rules and fillers are written
// in terms of these primitives, so that one layer file serves every device and, on the CPU, f32 and
// f64.
//
// Conventions:
//   * Tensors are dense, row-major; a primitive takes the element type from its first tensor, and
//     all floating tensors of one call share it (f32 or f64). Extents come from the tensors or from
//     an explicit geometry, never from both.
//   * An output must be backed. Every primitive ASSIGNS its output, except where its comment says
//     that it adds.
//   * In place is allowed (input and output the same memory) for map, map_backward (dy, dx), scale,
//     binary, blend (x or y, out), dropout and sample only.
//   * Results are a function of the values alone: not of pointer alignment, of the thread, or of
//     what ran before.
// Lanes: a device may have queues. Then a primitive returns before it has run; calls of one lane
// run in their order, and a lane waits for others where it reads what they write or writes what
// they read, the memory of dropped handles included. Inputs may lie with the host (they are fetched
// first), outputs may not. A device without queues is its own only lane, and all of this is
// immediate and free.
// Errors: wrong sizes and types are bugs and assert. An unsupported type aborts with a message.
// Threads: every member may be called by several threads at once, as long as they do not write the
// same tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ops/geometry.hpp"
#include "ops/tensor.hpp"

namespace troupe {

enum class device_kind : std::uint8_t { cpu, cuda };

// y = f(x); `parameter` is the slope of relu for x < 0, elu's alpha (>= 0), what inverse_root adds
// before it takes the root (y = 1 / sqrt(x + parameter)), and unused elsewhere.
enum class unary : std::uint8_t { relu, sigmoid, tanh, exp, log, sqrt, square, absolute, elu, gelu, gelu_tanh, inverse_root };
enum class pointwise : std::uint8_t { sigmoid, squared, hinge_1, hinge_2 };
enum class binary : std::uint8_t { add, subtract, multiply, maximum, rectified_sum };  // the last: max(0, x + y)
enum class draw : std::uint8_t { bernoulli, gaussian };

// What follows a convolution before anything is kept: the largest of each window, then y = f(x) (a
// map that works from y, !needs_input).
struct conv_tail {
  bool pools = false, maps = false;
  pool_geometry window{};  // its planes: batch x outputs
  unary f = unary::relu;
  double parameter = 0.0;
};

class device {
 public:
  virtual ~device() = default;

  virtual device_kind kind() const = 0;
  virtual std::string name() const = 0;         // "cpu", "cuda:0"
  virtual std::string numerics_id() const = 0;  // equal ids give equal bits

  // Uninitialised memory, 64-byte aligned, from the pool; it returns there when the last handle
  // drops, even after the device.
  virtual std::shared_ptr<storage> allocate(std::size_t bytes) = 0;
  struct pool_statistics {
    std::size_t bytes_held = 0, bytes_in_use = 0, peak_bytes_in_use = 0;
    std::uint64_t blocks_made = 0, blocks_reused = 0;
  };
  virtual pool_statistics pool() const = 0;

  // --- lanes
  virtual memory_space space() const { return {}; }  // of what allocate() gives
  // The device of the host's memory: where examples are read into, and what leaves for files and
  // other nodes is brought.
  virtual device& host() { return *this; }
  // Another queue over the same memory, for one seat (a role's sub-solver). Null: there are none,
  // and the device serves all.
  virtual std::shared_ptr<device> make_stream() { return nullptr; }
  // Around each task of the seat. It is over when it has been enqueued and what it promised the
  // host (fetch, later) has happened: end_task() says whether it is so; if not, when_over() says it
  // later, from any thread, and wait_over() waits (also while when_over() has yet to say so, and
  // the lane may be dropped then: a role that ends does both).
  virtual void begin_task() {}
  virtual bool end_task() { return true; }
  virtual void when_over(std::function<void()> then) { then(); }
  virtual void wait_over() {}

  // --- between the host and this device
  virtual void upload(const void* from, tensor& t) = 0;  // has read `from` when it returns
  virtual void download(const tensor& t, void* to) = 0;  // waits
  virtual void fetch(const tensor& from,
                     tensor& to);  // of equal type and count: here, from or to the host, to another device; home by the task's end
  double scalar(const tensor& t);  // the only element of t; waits
  // Calls `then` with the only element of t before the task is over: at once, or, by a device with
  // queues, when the task has returned, from any thread.
  virtual void later(const tensor& t, std::function<void(double)> then);

  // --- memory
  virtual void fill(double value, tensor& t) = 0;
  virtual void copy(const tensor& from, tensor& to) = 0;  // equal counts; converts between f32, f64, bf16, i32 and u8
  struct block {                                          // `rows` runs of `length` elements
    std::int64_t rows = 0, length = 0, from_offset = 0, from_stride = 0, to_offset = 0, to_stride = 0;
  };
  virtual void copy_block(const block& b, const tensor& from, tensor& to) = 0;

  // Rows of a table by number (i32): out[r] = table[ids[r]], zeros for a negative id, NaN for one
  // beyond the table.
  virtual void gather_rows(const tensor& table, const tensor& ids, tensor& out) = 0;
  // table[v] = sum of x[r] over the rows whose id is v, in their order; ids outside the table are
  // left out.
  virtual void scatter_rows(const tensor& x, const tensor& ids, tensor& table) = 0;
  // Rows of dimension 0 in a byte an element, u8 [rows, each + 4]: round(127 x / largest |x|) of
  // the row, and behind them the row's f32 scale. A row with an element that is not finite has the
  // scale NaN.
  virtual void to_int8(const tensor& x, tensor& bytes) = 0;
  virtual void from_int8(const tensor& bytes, tensor& x) = 0;
  // Along one axis, y[o, j, i] = sum over taps of weight x[o, index, i]; backward is the transpose
  // (dx = sum of weight dy).
  virtual void resample(const resample_geometry& g, const tensor& x, tensor& y) = 0;
  virtual void resample_backward(const resample_geometry& g, const tensor& dy, tensor& dx) = 0;

  // --- linear algebra and sums
  virtual void gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) = 0;
  // A right operand laid out for many products, in whatever way the device likes; `b` as in gemm,
  // of s only n, k, transpose_b and ldb count. gemm_packed() with the same four is gemm(); beta
  // must be 0 or 1, alpha 1. Row i of c depends on row i of op(a) alone, whatever m is.
  virtual tensor pack(const gemm_spec& s, const tensor& b);
  virtual void gemm_packed(const gemm_spec& s, const tensor& a, const tensor& packed, tensor& c);
  // The products of `packets` packets at once, `s` being that of one (dense, alpha 1, beta 0), to
  // the same bits. stacked: a [packets m, k] and c [packets m, n], the rows of one packet behind
  // those of the other; b is the same for all. summed:  c = sum of the packets' a^T b in the order
  // of packet_sum.hpp; a [packets k, m], b [packets k, n].
  virtual void gemm_stacked(const gemm_spec& s, std::int64_t packets, const tensor& a, const tensor& b, tensor& c);
  virtual void gemm_summed(const gemm_spec& s, std::int64_t packets, const tensor& a, const tensor& b, tensor& c);
  virtual void axpy(double a, const tensor& x, tensor& y) = 0;  // adds: y += a x
  virtual void scale(double a, tensor& x) = 0;                  // adds to what is there: x *= a
  virtual void apply(binary op, const tensor& x, const tensor& y, tensor& out) = 0;
  virtual void add_bias(std::int64_t outer, std::int64_t channels, std::int64_t inner, const tensor& bias, tensor& y) = 0;  // adds
  // out[mid] = sum over outer and inner of x[outer, mid, inner]: rows, columns and bias gradients.
  virtual void reduce_sum(std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, tensor& out) = 0;
  virtual void reduce_product(std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, const tensor& y,
                              tensor& out) = 0;  // out[mid] = sum of x y
  // Of each mid: the mean over outer and inner, and the mean squared distance from it.
  virtual void moments(std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, tensor& mean,
                       tensor& variance) = 0;
  // out[o, m, i] = x a[m] + y b[m] + shift[m]. Empty: a or b is 1, y and shift are 0.
  virtual void blend(std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, const tensor& a, const tensor& y,
                     const tensor& b, const tensor& shift, tensor& out) = 0;
  // In f64, by the binary tree over groups of 16 elements (packet_tree.hpp has its shape), so that
  // a tensor cut at multiples of 16 can be summed in parts (runtime/reduce/norm.hpp). NaN or
  // infinite when an element is. sum: one element, f64.
  virtual void sum_squares(const tensor& x, tensor& sum) = 0;

  // --- maps
  virtual void map(unary f, double parameter, const tensor& x, tensor& y) = 0;
  // dx = dy f'(x), given both x and y = f(x); a function that needs only one of them ignores the
  // other (which may be empty).
  virtual void map_backward(unary f, double parameter, const tensor& x, const tensor& y, const tensor& dy, tensor& dx) = 0;
  static bool needs_input(unary f);  // else map_backward works from y
  // dx = dy where x is the maximum, for eltwise max: dx = (x == y) ? dy : 0.
  virtual void select_equal(const tensor& x, const tensor& y, const tensor& dy, tensor& dx) = 0;

  // --- convolution. The defaults compose im2col, gemm and col2im (the reference); a device may
  // know better.
  virtual void im2col(const conv_geometry& g, std::int64_t image, std::int64_t group, const tensor& x, tensor& col) = 0;
  virtual void col2im(const conv_geometry& g, std::int64_t image, std::int64_t group, const tensor& col, tensor& dx) = 0;  // adds
  virtual void conv_forward(const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias, tensor& y);
  virtual void conv_backward_data(const conv_geometry& g, const tensor& dy, const tensor& w, tensor& dx);
  virtual void conv_backward_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add = false);
  // Those of weights and bias, of which those are made that are backed.
  virtual void conv_backward_parameters(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, tensor& db,
                                        bool add);
  // A convolution and its tail, block by block of images, so that what lies between stays in the
  // cache and nobody else sees it. index (i32, of y's shape): as max_pool makes it; empty when
  // nothing is pooled. Backward has y and index from there; dx, dw and db (of the bias) are made
  // when they are backed. A batch is cut alike whatever its tail: so its gradients are those of the
  // parts one after the other.
  virtual void conv_tail_forward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& bias,
                                 tensor& y, tensor& index);
  virtual void conv_tail_backward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& y,
                                  const tensor& index, const tensor& dy, tensor& dx, tensor& dw, tensor& db);
  virtual std::int64_t images_at_once(const conv_geometry& g) const;  // of such a block
  // What this pass is computed by here, in f32: what g names, or what `auto` is on this device.
  virtual conv_algorithm algorithm_on(const conv_geometry& g, conv_pass pass) const;

  // --- recurrent cells: what is done to a time step's gates between the products (cell_spec has
  // layouts and formulas). gates: sums of products in, values of the gates out (of rnn: unchanged;
  // of gru q without its factor r). bias: [gates()][units]. `c` of lstm only, empty otherwise; h
  // and y get the same values.
  virtual void cell_forward(const cell_spec& s, const tensor& bias, tensor& gates, const tensor& h_before, const tensor& c_before,
                            tensor& c, tensor& h, tensor& y) = 0;
  // dgates: of the sums of products. dh: in, what the next step adds to dy; out, what reaches
  // h_before past the products (gru; else unchanged). dc (lstm): in, of c; out, of c_before.
  virtual void cell_backward(const cell_spec& s, const tensor& gates, const tensor& h_before, const tensor& h,
                             const tensor& c_before, const tensor& c, const tensor& dy, tensor& dh, tensor& dc, tensor& dgates) = 0;

  // --- pooling and normalisation index: i32, the winner's position in its plane; the first in row
  // order wins a tie, a NaN wins over everything.
  virtual void max_pool(const pool_geometry& g, const tensor& x, tensor& y, tensor& index) = 0;
  virtual void max_pool_backward(const pool_geometry& g, const tensor& dy, const tensor& index, tensor& dx) = 0;
  virtual void avg_pool(const pool_geometry& g, const tensor& x, tensor& y) = 0;
  virtual void avg_pool_backward(const pool_geometry& g, const tensor& dy, tensor& dx) = 0;
  virtual void lrn(const lrn_geometry& g, const tensor& x, tensor& y, tensor& scale) = 0;
  virtual void lrn_backward(const lrn_geometry& g, const tensor& x, const tensor& scale, const tensor& dy, tensor& dx) = 0;

  // Normalisation by channel (norm_geometry has the formulas). Empty weight or bias: 1 or 0.
  // variance: biased. In one call, channel by channel: mean and variance of x, the table, and y.
  virtual void norm_forward(const norm_geometry& g, const tensor& x, const tensor& weight, const tensor& bias, tensor& variance,
                            tensor& table, tensor& y) = 0;
  // The same in parts, for a mean and a variance from elsewhere.
  virtual void norm_table(const norm_geometry& g, const tensor& mean, const tensor& variance, const tensor& weight,
                          const tensor& bias, tensor& table) = 0;
  virtual void norm_apply(const norm_geometry& g, const tensor& x, const tensor& table, tensor& y) = 0;
  // sums [2, mid]: of dy, and of dy xhat.
  virtual void norm_sums(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums) = 0;
  // dx = slope (dy - sums[0] / count - xhat sums[1] / count)
  virtual void norm_slope(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& sums, double count,
                          const tensor& dy, tensor& dx) = 0;
  // norm_sums, then norm_slope with count = outer inner, channel by channel.
  virtual void norm_backward(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums,
                             tensor& dx) = 0;

  // Over the middle axis of [outer, classes, inner].
  virtual void softmax(std::int64_t outer, std::int64_t classes, std::int64_t inner, const tensor& x, tensor& y) = 0;
  virtual void softmax_backward(std::int64_t outer, std::int64_t classes, std::int64_t inner, const tensor& y, const tensor& dy,
                                tensor& dx) = 0;

  // --- losses that are sums over elements, divided by the valid rows (dimension 0 of x). t:
  // `targets` is of x's type and count, or i32 labels, one a row: 1 at the label's class and 0
  // elsewhere (with one class: t = label > 0); a negative label is padding.
  //   sigmoid  max(x, 0) - x t + log(1 + exp(-|x|))     squared  (x - t)^2 / 2
  //   hinge_1  max(0, 1 + s x), s = t > 0 ? -1 : 1      hinge_2  its square
  // slope: d loss / dx. loss: one element, 0 when no row is valid.
  virtual void pointwise_loss(pointwise f, const tensor& x, const tensor& targets, tensor& slope, tensor& loss) = 0;

  // --- classification. x [rows, classes], labels [rows] i32; a row whose label is negative is
  // padding. loss: one element, the mean of -log probability[label] over the valid rows (0 when
  // there are none).
  virtual void softmax_loss(const tensor& x, const tensor& labels, tensor& probability, tensor& loss) = 0;
  // dx = dloss (probability - onehot) / valid rows; 0 on padding. `dloss` is one element.
  virtual void softmax_loss_backward(const tensor& probability, const tensor& labels, const tensor& dloss, tensor& dx) = 0;
  // out: the share of valid rows whose label is among the k largest; an equal score at a lower
  // class counts as larger.
  virtual void top_k(std::int64_t k, const tensor& x, const tensor& labels, tensor& out) = 0;

  // --- random numbers y = x mask / (1 - ratio). Row r of x (dimension 0) is example first_example
  // + r, and element j of it draws number j of that example's stream, so the mask does not depend
  // on how a batch is cut. The same call maps dy to dx.
  virtual void dropout(const rng_stream& s, std::uint64_t first_example, double ratio, const tensor& x, tensor& y) = 0;
  // A number drawn for each element of x, rows and their streams as in dropout. bernoulli: y = 1
  // with probability x, else 0; gaussian: y = x + a number of mean 0 and variance 1.
  virtual void sample(draw d, const rng_stream& s, std::uint64_t first_example, const tensor& x, tensor& y) = 0;
  virtual void fill_uniform(const rng_stream& s, double low, double high, tensor& t) = 0;
  virtual void fill_gaussian(const rng_stream& s, double mean, double deviation, tensor& t) = 0;

  // --- update, one pass over memory; d is the gradient as gradient_spec counts it. Outputs may be
  // the inputs.
  // With momentum: v' = m v + d; w' = w - lr (nesterov ? d + m v' : v'). Without (momentum 0),
  // velocity tensors may be empty: w' = w - lr d.
  virtual void sgd_update(const sgd_spec& s, const tensor& w, const tensor& g, const tensor& v, tensor& w_out, tensor& v_out) = 0;
  // The rules with states of their own, in this order (k1, k2: keep_1, keep_2):
  //   adagrad   (sum)                         sum' = sum + d^2; w' = w - lr d / (sqrt(first + sum') + eps)
  //   rmsprop   (square[, mean][, velocity])  square' = k2 square + (1 - k2) d^2; u = d / (sqrt(square') + eps); w' = w - lr u
  //             centered: mean' = k2 mean + (1 - k2) d and square' - mean'^2 in u; momentum m: v' = m v + u in place of u
  //   adadelta  (square, moved)               square' as above; u = sqrt(moved + eps) / sqrt(square' + eps) d; w' = w - lr u;
  //                                           moved' = k2 moved + (1 - k2) u^2
  //   adam      (mean, square)                mean' = k1 mean + (1 - k1) d; square' as above;
  //                                           w' = w - lr mean' / (sqrt(square') / deviation + eps)
  //   adamax    (mean, norm)                  mean' as above; norm' = max(k2 norm, |d| + eps); w' = w - lr mean' / norm'
  virtual void adaptive_update(const adaptive_spec& s, const tensor& w, const tensor& g, const tensors& states, tensor& w_out,
                               tensors& states_out) = 0;
};

// `t` where this lane can write to it or hand it on: itself, or a copy fetched into the device's
// memory.
tensor brought(device& d, const tensor& t);
// As t.reclaim(), for memory that this lane can write to.
inline bool reclaim(const device& d, tensor& t) { return t.space() == d.space() && t.reclaim(); }
// `t` in the host's memory when the task is over: itself, or a copy.
tensor brought_home(device& d, const tensor& t);

// The CPU device: one thread per call, OpenBLAS single-threaded. `isa` names the kernels: "" = the
// best that this machine has, or "x86-64-v4-amx", "x86-64-v4", "x86-64-v3", "baseline" to pin them,
// so that unlike machines give like bits. Null when it is not available.
std::unique_ptr<device> make_cpu_device(const std::string& isa = "");

// ops/cuda, or ops/cuda_none where the toolkit is absent. make_cuda_device() is null when it
// cannot; cuda_reason() says why.
bool cuda_available();
std::string cuda_reason();
std::unique_ptr<device> make_cuda_device(int index);

}  // namespace troupe
