// Parameters of the primitives of device.hpp. Plain values without invariants: a layer fills them
// in infer() and prepare(), after it has checked the extents.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace troupe {

struct gemm_spec {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;  // c[m, n] = alpha op(a)[m, k] op(b)[k, n] + beta c
  double alpha = 1.0, beta = 0.0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;  // row strides in elements; 0 = dense
};

// Algorithm of a convolution (ops/conv_algorithm.hpp). `automatic`: the device chooses by a fixed
// rule.
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
// size: the numbers that define a convolution
struct conv_geometry {
  std::int64_t batch = 1, channels = 1, height = 1, width = 1, outputs = 1;
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  std::int64_t groups = 1;
  conv_algorithm algorithm = conv_algorithm::automatic;
  std::optional<conv_algorithm> algorithm_data{}, algorithm_weights{};  // for the passes of the gradients; empty: `algorithm`
  std::int64_t of_batch = 0;  // size of the batch that these images are part of, which decides the algorithm; 0: batch
  // x or y (and its gradient) is in a device-specific layout between this convolution and its
  // neighbour, which sets the matching flag. Only element-wise maps may be in between, and only if
  // blocks_between() (ops/conv_algorithm.hpp) allows it. Otherwise the layout is the one above.
  bool own_x = false, own_y = false;
  // All sizes, in the order of the members. Convolutions of equal extents compute the same
  // function.
  std::array<std::int64_t, 14> extents() const {
    return {batch,    channels, height, width, outputs,    kernel_h,   kernel_w,
            stride_h, stride_w, pad_h,  pad_w, dilation_h, dilation_w, groups};
  }
  bool unit_stride() const { return stride_h == 1 && stride_w == 1; }
  std::int64_t out_h() const { return (height + 2 * pad_h - dilation_h * (kernel_h - 1) - 1) / stride_h + 1; }
  std::int64_t out_w() const { return (width + 2 * pad_w - dilation_w * (kernel_w - 1) - 1) / stride_w + 1; }
  std::int64_t group_channels() const { return channels / groups; }
  std::int64_t group_outputs() const { return outputs / groups; }
  std::int64_t patch() const { return group_channels() * kernel_h * kernel_w; }  // rows of the column matrix of one group
  std::int64_t pixels() const { return out_h() * out_w(); }                      // columns of the column matrix, for one image
};

// Pooling over `planes` = batch * channels images. The layer computes the output extents, since it
// decides the rounding.
struct pool_geometry {
  std::int64_t planes = 1, height = 1, width = 1, out_h = 1, out_w = 1;
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool count_padding = true;  // average pooling: the divisor counts padding, but nothing beyond it
};

// scale = k + alpha / |window| * sum of x^2 over the window; y = x * scale^-beta.
struct lrn_geometry {
  std::int64_t batch = 1, channels = 1, height = 1, width = 1, size = 5;
  bool across_channels = true;  // false: the window is size x size pixels of one channel
  double alpha = 1.0, beta = 0.75, k = 1.0;
};

// Normalisation by channel of x [outer, mid, inner]: each mid has a mean and r = 1 / sqrt(variance
// + epsilon) over outer and inner.
//   y = (x - mean) slope + shift, xhat = (x - mean) r
//   table [4, mid]: rows mean, r, slope = weight r, shift = bias
// rectified: a relu follows, y = max(0, ...); the gradient is zero where y is.
struct norm_geometry {
  std::int64_t outer = 1, mid = 1, inner = 1;
  double epsilon = 0.0;
  bool rectified = false;
};

// y [outer, out, inner] from x [outer, in, inner]: element j is a weighted sum of `taps` elements
// of x. index and weight are [out][taps] arrays in host memory, read during the call; a negative
// index contributes zero.
struct resample_geometry {
  std::int64_t outer = 1, in = 1, out = 1, inner = 1, taps = 1;
  const std::int32_t* index = nullptr;
  const double* weight = nullptr;
};

// A counter-based random stream: element i depends only on (key, a, b, i). Philox 4x32-10, Salmon
// et al. 2011.
struct rng_stream {
  std::uint64_t key = 0;
  std::uint32_t a = 0, b = 0;
};

// The gradient that an update rule uses: d = clamp(scale g, -limit, limit) + decay w + decay_l1
// sign(w), from the given gradient g and weight w; sign(0) is 0. With decay_l1 0 the last sum is
// that without it, bit for bit.
struct gradient_spec {
  double scale = 1.0;                   // 1 / packets if g is a sum over packets
  double limit = __builtin_huge_val();  // infinite: no clamping
  double decay = 0.0;
  double decay_l1 = 0.0;
};

// One time step of recurrent cells (device::cell_forward) for `rows` examples of `units` states
// each. The gates of an example are adjacent, [gates()][units]; h, c and their gradients are
// [rows][units]; `stride` is the distance between examples in y and dy, in elements. Each gate
// below stands for its sum of products plus bias:
//   rnn   h' = f(p), f = tanh or relu
//   lstm  i, f, g, o:  c' = sigmoid(f) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(c')
//   gru   r, z, n, q:  m = tanh(n + sigmoid(r) q); h' = (1 - sigmoid(z)) m + sigmoid(z) h
//         q is the part of the gate n that comes from h
// Hochreiter and Schmidhuber 1997 (lstm); Cho et al. 2014 (gru).
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

// device::adaptive_update lists the formulas. Factors that depend on the number of updates (Adam's
// bias correction, Adagrad's lr_decay) are folded into `lr` and `deviation`, so a kernel needs no
// step number.
enum class adaptive_rule : std::uint8_t { adagrad, rmsprop, adadelta, adam, adamax };
struct adaptive_spec {
  adaptive_rule rule = adaptive_rule::adam;
  gradient_spec gradient{};
  double lr = 0.0, eps = 0.0;
  double keep_1 = 0.0, keep_2 = 0.0;  // decay rates of the first and of the second moment
  double first = 0.0;                 // adagrad: initial value of the sum
  double deviation = 1.0;             // adam: divisor of the root of the second moment
  double keep_weight = 1.0;           // adam: factor on the old weight, 1 - lr decay for AdamW
  double momentum = 0.0;              // rmsprop
  bool centered = false;              // rmsprop
};

}  // namespace troupe
