// Plain descriptions of what a primitive is to do (device.hpp). Values without invariants of their
// own: a layer fills them in infer() and prepare(), where it has checked the extents.
#pragma once

#include <cstdint>
#include <optional>

namespace troupe {

struct gemm_spec {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;  // c[m, n] = alpha op(a)[m, k] op(b)[k, n] + beta c
  double alpha = 1.0, beta = 0.0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;  // row strides in elements; 0 = dense
};

// How a convolution is computed (ops/conv_algorithm.hpp). `automatic` leaves it to the device, by a
// fixed rule.
enum class conv_algorithm : std::uint8_t {
  automatic,
  lowering1,
  lowering2,
  lowering3,
  direct,
  winograd,
  winograd4,
  onednn,
  bf16x3
};

enum class conv_pass : std::uint8_t { forward, backward_data, backward_weights };

// A two-dimensional convolution: x [batch, channels, height, width] -> y [batch, outputs,
// out_height, out_width], w [outputs, channels / groups, kernel_h, kernel_w]. Also the geometry of
// im2col.
struct conv_geometry {
  std::int64_t batch = 1, channels = 1, height = 1, width = 1, outputs = 1;
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  std::int64_t groups = 1;
  conv_algorithm algorithm = conv_algorithm::automatic;
  std::optional<conv_algorithm> algorithm_data{}, algorithm_weights{};  // of the gradients' passes, where they have others
  std::int64_t of_batch = 0;  // these are some images of a batch of so many, which decide how they are computed; 0: all of it
  // x or y (and its gradient) lies as the device likes it between this convolution and its
  // neighbour, which says so too; between them are maps of single elements at most. Only where
  // blocks_between() (ops/conv_algorithm.hpp); elsewhere all lies as written above.
  bool own_x = false, own_y = false;
  bool unit_stride() const { return stride_h == 1 && stride_w == 1; }
  std::int64_t out_h() const { return (height + 2 * pad_h - dilation_h * (kernel_h - 1) - 1) / stride_h + 1; }
  std::int64_t out_w() const { return (width + 2 * pad_w - dilation_w * (kernel_w - 1) - 1) / stride_w + 1; }
  std::int64_t group_channels() const { return channels / groups; }
  std::int64_t group_outputs() const { return outputs / groups; }
  std::int64_t patch() const { return group_channels() * kernel_h * kernel_w; }  // rows of the column matrix of one group
  std::int64_t pixels() const { return out_h() * out_w(); }                      // its columns, for one image
};

// Pooling over `planes` = batch * channels images. Out extents are given: rounding is the layer's
// matter.
struct pool_geometry {
  std::int64_t planes = 1, height = 1, width = 1, out_h = 1, out_w = 1;
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool count_padding = true;  // avg: the divisor counts padding (but nothing beyond it)
};

// scale = k + alpha / |window| * sum of x^2 over the window; y = x * scale^-beta.
struct lrn_geometry {
  std::int64_t batch = 1, channels = 1, height = 1, width = 1, size = 5;
  bool across_channels = true;  // else the window is size x size pixels of one channel
  double alpha = 1.0, beta = 0.75, k = 1.0;
};

// Normalisation by channel of x [outer, mid, inner]: each mid has a mean and r = 1 / sqrt(variance
// + epsilon) over outer and inner.
//   y = (x - mean) slope + shift, xhat = (x - mean) r; the table [4, mid] holds the rows mean, r, slope = weight r and shift = bias
// rectified: relu is behind it, y = max(0, ...), and a gradient counts where y > 0 alone.
struct norm_geometry {
  std::int64_t outer = 1, mid = 1, inner = 1;
  double epsilon = 0.0;
  bool rectified = false;
};

// y [outer, out, inner] from x [outer, in, inner]: element j is a sum of `taps` elements of x.
// index and weight are [out][taps]; a negative index counts as zero. They are host memory, read
// while the call runs.
struct resample_geometry {
  std::int64_t outer = 1, in = 1, out = 1, inner = 1, taps = 1;
  const std::int32_t* index = nullptr;
  const double* weight = nullptr;
};

// A counter-based stream: element i depends on (key, a, b, i) only. Philox 4x32-10, Salmon et al.
// 2011.
struct rng_stream {
  std::uint64_t key = 0;
  std::uint32_t a = 0, b = 0;
};

// What a rule makes of the gradient g that it is given, w being the weight: clamp(scale g, -limit,
// limit) + decay w.
struct gradient_spec {
  double scale = 1.0;                   // 1 / packets, for a sum over packets
  double limit = __builtin_huge_val();  // infinite: no clamp
  double decay = 0.0;
};

// One time step of recurrent cells (device::cell_forward), `rows` examples of `units` states each.
// Gates of an example lie side by side, [gates()][units]; h, c and their gradients [rows][units]; y
// and dy have `stride` elements from example to example. With p a gate's sum of products, b its
// bias:
//   rnn   h = f(p + b), f = tanh or relu
//   lstm  i, f, g, o:  c' = sigmoid(f) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(c')     Hochreiter and Schmidhuber 1997
//   gru   r, z, n, q:  q = h's part of n;  m = tanh(n + sigmoid(r) q); h' = (1 - sigmoid(z)) m + sigmoid(z) h     Cho et al. 2014
enum class cell_kind : std::uint8_t { rnn_tanh, rnn_relu, lstm, gru };
struct cell_spec {
  cell_kind kind = cell_kind::lstm;
  std::int64_t rows = 0, units = 0, stride = 0;
  std::int64_t gates() const { return kind == cell_kind::lstm || kind == cell_kind::gru ? 4 : 1; }
};

struct sgd_spec {
  gradient_spec gradient{};
  double lr = 0.0, momentum = 0.0;
  bool nesterov = false;
};

// The formulas stand at device::adaptive_update. What depends on the number of updates so far
// (Adam's bias correction, Adagrad's lr_decay) is in `lr` and `deviation`, so that a kernel knows
// no steps.
enum class adaptive_rule : std::uint8_t { adagrad, rmsprop, adadelta, adam, adamax };
struct adaptive_spec {
  adaptive_rule rule = adaptive_rule::adam;
  gradient_spec gradient{};
  double lr = 0.0, eps = 0.0;
  double keep_1 = 0.0, keep_2 = 0.0;  // share of the first and of the second moment that is kept from step to step
  double first = 0.0;                 // adagrad: what its sum begins with
  double deviation = 1.0;             // adam: what the root of the second moment is divided by
  double momentum = 0.0;              // rmsprop
  bool centered = false;              // rmsprop
};

}  // namespace troupe
