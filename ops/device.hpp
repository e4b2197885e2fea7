// A device allocates memory and runs primitives on tensors. Layers, update rules and fillers are
// written in terms of these primitives. One layer file therefore serves every device and, on the
// CPU, both f32 and f64.
//
// Conventions:
//   * Tensors are dense and row-major. A primitive takes the element type from its first tensor;
//     all floating-point tensors of one call share it (f32 or f64). Extents come from the tensors
//     or from an explicit geometry, never from both.
//   * An output must be backed. Every primitive ASSIGNS its output, except where its comment says
//     that it adds.
//   * Input and output may be the same memory only for map, map_backward (dy, dx), scale, apply,
//     blend (x or y, out), dropout and sample.
//   * Results depend only on the values: not on pointer alignment, the calling thread or earlier
//     calls.
// Streams: a device may have queues. A primitive then returns before it has run. Calls on one
// stream run in order. A stream waits for other streams where it reads what they write or writes
// what they read; this includes the memory of dropped handles. Inputs may be in host memory (they
// are fetched first), outputs may not. A device without queues has a single stream and runs every
// primitive immediately.
// Errors: wrong sizes and types are bugs and assert. An unsupported type aborts with a message.
// Threads: any member may be called from several threads at the same time, unless they write the
// same tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ops/geometry.hpp"
#include "ops/maths_rules.hpp"
#include "ops/tensor.hpp"

namespace troupe {

enum class device_kind : std::uint8_t { cpu, cuda };

// y = f(x). `parameter` is the slope of relu for x < 0, the alpha of elu (>= 0), or the addend of
// inverse_root, y = 1 / sqrt(x + parameter), the maximum of relu6, or the slope of hard_sigmoid,
// y = min(max(parameter x + 1/2, 0), 1). Other functions ignore it.
enum class unary : std::uint8_t {
  relu,
  sigmoid,
  tanh,
  exp,
  log,
  sqrt,
  square,
  absolute,
  elu,
  gelu,
  gelu_tanh,
  inverse_root,
  relu6,
  silu,
  hard_sigmoid,
  hard_swish
};
enum class pointwise : std::uint8_t { sigmoid, squared, hinge_1, hinge_2 };
enum class binary : std::uint8_t { add, subtract, multiply, maximum, rectified_sum };  // rectified_sum: max(0, x + y)
enum class draw : std::uint8_t { bernoulli, gaussian };

// Operations that follow a convolution before its result is stored: max-pooling, then y = f(x). f
// must have a derivative that depends on y only (!device::needs_input(f)).
struct conv_tail {
  bool pools = false, maps = false;
  pool_geometry window{};  // with planes = batch x outputs
  unary f = unary::relu;
  double parameter = 0.0;
};

class device {
 public:
  virtual ~device() = default;

  virtual device_kind kind() const = 0;
  virtual std::string name() const = 0;         // "cpu", "cuda:0"
  virtual std::string numerics_id() const = 0;  // devices with equal ids give equal bits

  // Uninitialised memory from the pool, aligned to 64 bytes. It returns to the pool when the last
  // handle drops; the handle may outlive the device.
  virtual std::shared_ptr<storage> allocate(std::size_t bytes) = 0;
  struct pool_statistics {
    std::size_t bytes_held = 0, bytes_in_use = 0, peak_bytes_in_use = 0;
    std::uint64_t blocks_made = 0, blocks_reused = 0;
  };
  virtual pool_statistics pool() const = 0;

  // --- streams
  virtual memory_space space() const { return {}; }  // of the memory that allocate() returns
  // The device of host memory. Examples are read into its memory; tensors for files and other nodes
  // are fetched to it.
  virtual device& host() { return *this; }
  // Returns another stream over the same memory, for one sub-solver of a role. Null if the device
  // has no queues; all sub-solvers then share the device.
  virtual std::shared_ptr<device> make_stream() { return nullptr; }
  virtual void set_rules(const maths_rules&) {}  // of a stream, before its first primitive
  // begin_task() and end_task() enclose each task of a sub-solver. A task is over when its
  // primitives are enqueued and its host-side effects (fetch, later) have happened. end_task()
  // returns true if the task is over. Otherwise when_over() calls `then` once it is over, from any
  // thread, and wait_over() blocks until then. Both report why the device could not do the task, or
  // an empty text. wait_over() may be called while a when_over() call is still pending; the stream
  // may be dropped afterwards. None of them throws.
  virtual void begin_task() {}
  virtual bool end_task() { return true; }
  virtual void when_over(std::function<void(const std::string& failure)> then) { then({}); }
  virtual std::string wait_over() { return {}; }
  // end_task() and wait_over(). Throws std::runtime_error with the failure.
  void finish_task();

  // --- between the host and this device
  virtual void upload(const void* from, tensor& t) = 0;  // `from` may be reused on return
  virtual void download(const tensor& t, void* to) = 0;  // blocks until `to` is filled
  // Copies between tensors of equal type and count: within this device, from or to the host, or to
  // another device. Host memory is filled when the task is over.
  virtual void fetch(const tensor& from, tensor& to);
  double scalar(const tensor& t);  // the only element of t; blocks
  // out = the sum of the parts, which have its type and count and may be in the memory of other
  // devices of the node. The device chooses the order of the additions.
  virtual void sum_across(const tensors& parts, tensor& out);
  // Calls `then` with the only element of t before the task is over: immediately, or, on a device
  // with queues, after the task has returned and from any thread.
  virtual void later(const tensor& t, std::function<void(double)> then);

  // --- memory
  virtual void fill(double value, tensor& t) = 0;
  virtual void copy(const tensor& from, tensor& to) = 0;  // equal counts; converts between f32, f64, bf16, i32 and u8
  struct block {  // copies `rows` runs of `length` elements; offsets and strides in elements
    std::int64_t rows = 0, length = 0, from_offset = 0, from_stride = 0, to_offset = 0, to_stride = 0;
  };
  virtual void copy_block(const block& b, const tensor& from, tensor& to) = 0;

  // Looks up rows of a table by id (i32): out[r] = table[ids[r]]. A negative id gives zeros, an id
  // beyond the table gives NaN.
  virtual void gather_rows(const tensor& table, const tensor& ids, tensor& out) = 0;
  // table[v] = sum of x[r] over the rows r with ids[r] == v, in row order. Ids outside the table
  // are ignored.
  virtual void scatter_rows(const tensor& x, const tensor& ids, tensor& table) = 0;
  // Quantises each row (dimension 0) to u8 [rows, elements per row + 4]: round(127 x / max |x|) for
  // each element, followed by the row's f32 scale. The scale is NaN if an element is not finite.
  virtual void to_int8(const tensor& x, tensor& bytes) = 0;
  virtual void from_int8(const tensor& bytes, tensor& x) = 0;
  // y[o, j, i] = sum over taps of weight x[o, index, i], along one axis. The backward is the
  // transpose: dx = sum of weight dy.
  virtual void resample(const resample_geometry& g, const tensor& x, tensor& y) = 0;
  virtual void resample_backward(const resample_geometry& g, const tensor& dy, tensor& dx) = 0;

  // --- linear algebra and sums
  virtual void gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) = 0;
  // pack() lays out the right operand of gemm() for repeated products, in a device-specific format.
  // Only n, k, transpose_b and ldb of `s` apply. gemm_packed() with the same four values computes
  // gemm(); alpha must be 1, beta 0 or 1. Row i of c depends only on row i of op(a), whatever m is.
  virtual tensor pack(const gemm_spec& s, const tensor& b);
  virtual void gemm_packed(const gemm_spec& s, const tensor& a, const tensor& packed, tensor& c);
  // The products of `packets` packets in one call, bit-identical to separate calls. `s` describes
  // one product (dense, alpha 1, beta 0).
  //   stacked  a [packets m, k], c [packets m, n]: packets are concatenated along the rows; all
  //            share b
  //   summed   c = sum over packets of a^T b, added in the order of packet_sum.hpp; a [packets k,
  //            m], b [packets k, n]
  virtual void gemm_stacked(const gemm_spec& s, std::int64_t packets, const tensor& a, const tensor& b, tensor& c);
  virtual void gemm_summed(const gemm_spec& s, std::int64_t packets, const tensor& a, const tensor& b, tensor& c);
  virtual void axpy(double a, const tensor& x, tensor& y) = 0;  // adds: y += a x
  virtual void scale(double a, tensor& x) = 0;                  // reads x, so it counts as one that adds: x *= a
  virtual void apply(binary op, const tensor& x, const tensor& y, tensor& out) = 0;
  virtual void add_bias(std::int64_t outer, std::int64_t channels, std::int64_t inner, const tensor& bias, tensor& y) = 0;  // adds
  // out[mid] = sum over outer and inner of x[outer, mid, inner]: sums of rows or columns, gradients
  // of a bias.
  virtual void reduce_sum(std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, tensor& out) = 0;
  virtual void reduce_product(std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, const tensor& y,
                              tensor& out) = 0;  // out[mid] = sum of x y
  // For each mid: the mean over outer and inner, and the mean squared deviation from it (biased
  // variance).
  virtual void moments(std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, tensor& mean,
                       tensor& variance) = 0;
  // out[o, m, i] = x a[m] + y b[m] + shift[m]. An empty a or b counts as 1, an empty y or shift as
  // 0.
  virtual void blend(std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, const tensor& a, const tensor& y,
                     const tensor& b, const tensor& shift, tensor& out) = 0;
  // Sum of squares, one f64 element. Computed in f64 by the binary tree of packet_tree.hpp over
  // groups of 16 elements, so that a tensor cut at multiples of 16 can be summed in parts
  // (runtime/reduce/norm.hpp). NaN or infinite if an element is.
  virtual void sum_squares(const tensor& x, tensor& sum) = 0;

  // --- maps
  virtual void map(unary f, double parameter, const tensor& x, tensor& y) = 0;
  // dx = dy f'(x), given x and y = f(x). A function that needs only one of them ignores the other,
  // which may then be empty.
  virtual void map_backward(unary f, double parameter, const tensor& x, const tensor& y, const tensor& dy, tensor& dx) = 0;
  static bool needs_input(unary f);  // true: map_backward reads x; false: it reads y
  // dx = (x == y) ? dy : 0: the gradient of an element-wise maximum y.
  virtual void select_equal(const tensor& x, const tensor& y, const tensor& dy, tensor& dx) = 0;

  // --- convolution. The default implementations compose im2col, gemm and col2im (the reference);
  // devices may override them.
  virtual void im2col(const conv_geometry& g, std::int64_t image, std::int64_t group, const tensor& x, tensor& col) = 0;
  virtual void col2im(const conv_geometry& g, std::int64_t image, std::int64_t group, const tensor& col, tensor& dx) = 0;  // adds
  virtual void conv_forward(const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias, tensor& y);
  virtual void conv_backward_data(const conv_geometry& g, const tensor& dy, const tensor& w, tensor& dx);
  virtual void conv_backward_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add = false);
  // Gradients of the weights and of the bias. A gradient is computed if its tensor is backed.
  virtual void conv_backward_parameters(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, tensor& db,
                                        bool add);
  // A convolution and its tail, computed block by block of images, so that the intermediate results
  // stay in the cache. index (i32, of y's shape) is that of max_pool, empty without pooling. The
  // backward takes y and index of the forward; it computes dx, dw and db (bias) if they are backed.
  // The blocks do not depend on the tail, and the gradients are added block by block: they equal
  // those of separate calls on the blocks in order.
  virtual void conv_tail_forward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& bias,
                                 tensor& y, tensor& index);
  virtual void conv_tail_backward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& y,
                                  const tensor& index, const tensor& dy, tensor& dx, tensor& dw, tensor& db);
  virtual std::int64_t images_at_once(const conv_geometry& g) const;  // images of such a block
  // The algorithm of this pass in f32 on this device: the one that g names, or the device's choice
  // for `auto`.
  virtual conv_algorithm algorithm_on(const conv_geometry& g, conv_pass pass) const;

  // --- recurrent cells: the element-wise part of one time step, between the products (cell_spec
  // lists layouts and formulas). gates: in, sums of products; out, values of the gates (unchanged
  // for rnn; for gru, q is stored without its factor r). bias: [gates()][units]. c is for lstm only
  // and empty otherwise. h and y receive the same values.
  virtual void cell_forward(const cell_spec& s, const tensor& bias, tensor& gates, const tensor& h_before, const tensor& c_before,
                            tensor& c, tensor& h, tensor& y) = 0;
  // dgates: gradients of the sums of products. dh: in, the gradient from the next step, which is
  // added to dy; out, the gradient of h_before that bypasses the products (gru only; otherwise
  // unchanged). dc (lstm only): in, gradient of c; out, gradient of c_before.
  virtual void cell_backward(const cell_spec& s, const tensor& gates, const tensor& h_before, const tensor& h,
                             const tensor& c_before, const tensor& c, const tensor& dy, tensor& dh, tensor& dc, tensor& dgates) = 0;

  // --- pooling and normalisation. index (i32): position of the maximum in its plane. The first
  // maximum in row order wins a tie; a NaN wins over every number.
  virtual void max_pool(const pool_geometry& g, const tensor& x, tensor& y, tensor& index) = 0;
  virtual void max_pool_backward(const pool_geometry& g, const tensor& dy, const tensor& index, tensor& dx) = 0;
  virtual void avg_pool(const pool_geometry& g, const tensor& x, tensor& y) = 0;
  virtual void avg_pool_backward(const pool_geometry& g, const tensor& dy, tensor& dx) = 0;
  virtual void lrn(const lrn_geometry& g, const tensor& x, tensor& y, tensor& scale) = 0;
  virtual void lrn_backward(const lrn_geometry& g, const tensor& x, const tensor& scale, const tensor& dy, tensor& dx) = 0;

  // Normalisation by channel (norm_geometry lists the formulas). An empty weight counts as 1, an
  // empty bias as 0. norm_forward computes mean and biased variance of x, the table and y, channel
  // by channel.
  virtual void norm_forward(const norm_geometry& g, const tensor& x, const tensor& weight, const tensor& bias, tensor& variance,
                            tensor& table, tensor& y) = 0;
  // The steps of norm_forward, for a given mean and variance.
  virtual void norm_table(const norm_geometry& g, const tensor& mean, const tensor& variance, const tensor& weight,
                          const tensor& bias, tensor& table) = 0;
  virtual void norm_apply(const norm_geometry& g, const tensor& x, const tensor& table, tensor& y) = 0;
  // sums [2, mid]: the sum of dy, and the sum of dy xhat.
  virtual void norm_sums(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums) = 0;
  // dx = slope (dy - sums[0] / count - xhat sums[1] / count)
  virtual void norm_slope(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& sums, double count,
                          const tensor& dy, tensor& dx) = 0;
  // norm_sums, then norm_slope with count = outer inner, channel by channel.
  virtual void norm_backward(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums,
                             tensor& dx) = 0;

  // Softmax over the middle axis of [outer, classes, inner].
  virtual void softmax(std::int64_t outer, std::int64_t classes, std::int64_t inner, const tensor& x, tensor& y) = 0;
  virtual void softmax_backward(std::int64_t outer, std::int64_t classes, std::int64_t inner, const tensor& y, const tensor& dy,
                                tensor& dx) = 0;

  // --- losses that are sums over elements, divided by the number of valid rows (dimension 0 of x).
  // `targets` (t below) has the type and count of x, or holds i32 labels, one per row: t is 1 at
  // the label's class and 0 elsewhere; with a single class, t = label > 0. A negative label marks
  // padding.
  //   sigmoid  max(x, 0) - x t + log(1 + exp(-|x|))     squared  (x - t)^2 / 2
  //   hinge_1  max(0, 1 + s x), s = t > 0 ? -1 : 1      hinge_2  the square of hinge_1
  // slope: d loss / dx. loss: one element, 0 if no row is valid.
  virtual void pointwise_loss(pointwise f, const tensor& x, const tensor& targets, tensor& slope, tensor& loss) = 0;

  // --- classification. x [rows, classes], labels [rows] i32; a negative label marks a padding row.
  // With smoothing s, the target t of class c is (c == label ? 1 - s : 0) + s / classes; s <= 1.
  // loss: one element, the mean over the valid rows of -(sum over c of t log probability), which is
  // -log probability[label] for s = 0. 0 if no row is valid. `weights`: empty, or [classes] in the
  // type of `probability`, not negative. Then t of a row is multiplied by the weights of its
  // classes, and the mean is weighted: the divisor is the sum of weights[label] over the valid rows
  // (0 if that is 0), as in torch.nn.CrossEntropyLoss.
  virtual void softmax_loss(double smoothing, const tensor& weights, const tensor& x, const tensor& labels, tensor& probability,
                            tensor& loss) = 0;
  // dx = dloss (probability - t) / valid rows; with weights: dloss ((sum of t) probability - t) /
  // divisor. 0 for padding rows. `dloss` has one element.
  virtual void softmax_loss_backward(double smoothing, const tensor& weights, const tensor& probability, const tensor& labels,
                                     const tensor& dloss, tensor& dx) = 0;
  // out: the fraction of valid rows whose label is among the k largest scores. On equal scores the
  // lower class ranks first.
  virtual void top_k(std::int64_t k, const tensor& x, const tensor& labels, tensor& out) = 0;

  // --- random numbers. dropout: y = x mask / (1 - ratio). Row r of x (dimension 0) is example
  // first_example + r, and its element j uses number j of that example's stream, so the mask does
  // not depend on how a batch is split. The same call maps dy to dx.
  virtual void dropout(const rng_stream& s, std::uint64_t first_example, double ratio, const tensor& x, tensor& y) = 0;
  // Draws a number for each element of x, with rows and streams as in dropout. bernoulli: y = 1
  // with probability x, else 0; gaussian: y = x + a number of mean 0 and variance 1.
  virtual void sample(draw d, const rng_stream& s, std::uint64_t first_example, const tensor& x, tensor& y) = 0;
  virtual void fill_uniform(const rng_stream& s, double low, double high, tensor& t) = 0;
  virtual void fill_gaussian(const rng_stream& s, double mean, double deviation, tensor& t) = 0;

  // --- updates, one pass over memory. d is the gradient that gradient_spec defines. Outputs may be
  // the inputs. Momentum m != 0: v' = m v + d; w' = w - lr (nesterov ? d + m v' : v'). Momentum 0:
  // w' = w - lr d, and the velocity tensors may be empty.
  virtual void sgd_update(const sgd_spec& s, const tensor& w, const tensor& g, const tensor& v, tensor& w_out, tensor& v_out) = 0;
  // Adaptive rules, with their states in this order (k1, k2: keep_1, keep_2; d2 = d^2):
  //   adagrad   (sum)                         sum' = sum + d2
  //                                           w' = w - lr d / (sqrt(first + sum') + eps)
  //   rmsprop   (square[, mean][, velocity])  square' = k2 square + (1 - k2) d2
  //                                           u = d / (sqrt(square') + eps)
  //                                           w' = w - lr u
  //             centered                      mean' = k2 mean + (1 - k2) d
  //                                           u with square' - mean'^2 in place of square'
  //             momentum m                    v' = m v + u
  //                                           w' = w - lr v'
  //   adadelta  (square, moved)               square' as rmsprop
  //                                           u = sqrt(moved + eps) / sqrt(square' + eps) d
  //                                           w' = w - lr u
  //                                           moved' = k2 moved + (1 - k2) u^2
  //   adam      (mean, square)                mean' = k1 mean + (1 - k1) d; square' as rmsprop
  //                                           u = mean' / (sqrt(square') / deviation + eps)
  //                                           w' = keep_weight w - lr u
  //   adamax    (mean, norm)                  mean' as adam; norm' = max(k2 norm, |d| + eps)
  //                                           w' = w - lr mean' / norm'
  virtual void adaptive_update(const adaptive_spec& s, const tensor& w, const tensor& g, const tensors& states, tensor& w_out,
                               tensors& states_out) = 0;
};

// Returns `t` in memory that this device can write and pass on: `t` itself, or a copy fetched to
// the device's memory.
tensor brought(device& d, const tensor& t);
// t.reclaim(), but only for memory of this device.
inline bool reclaim(const device& d, tensor& t) { return t.space() == d.space() && t.reclaim(); }
// Returns `t` in host memory, valid when the task is over: `t` itself, or a copy.
tensor brought_home(device& d, const tensor& t);

// The CPU device: one thread per call, single-threaded OpenBLAS. `isa` selects the kernels: "" for
// the best that the machine supports, or "x86-64-v4-amx", "x86-64-v4", "x86-64-v3" or "baseline",
// so that different machines give equal bits. Null if the machine does not support `isa`.
std::unique_ptr<device> make_cpu_device(const std::string& isa = "");

}  // namespace troupe
