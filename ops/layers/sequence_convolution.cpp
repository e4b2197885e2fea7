// sequence_convolution: a convolution over the steps of a sequence (Conv1D of Keras).
//   formula   y[n, t, o] = bias[o] + sum over c and j of
//                          w[o, c, j] x[n, t stride + j dilation - before, c]
//   shapes    x [N, T, D] -> y [N, OT, outputs],
//             OT = (before + T + after - dilation (kernel - 1) - 1) / stride + 1, rounded down;
//             w [outputs, D / groups, kernel], bias [outputs], as nn.Conv1d
//   gradient  as convolution
// A resample moves the values of an example from [T, D] to [D, before + T + after], with zeros for
// the padding. The rest is a convolution of images of height 1.
#include "ops/layer_support.hpp"
#include "ops/window_options.hpp"

namespace troupe {

namespace {

// Moves of the values of one example: a value of the result is that of its index, or 0 if the index
// is negative.
using moves = std::vector<std::int32_t>;

// [rows, columns] -> [columns, before + rows + after].
moves turned(std::int64_t rows, std::int64_t columns, std::int64_t before = 0, std::int64_t after = 0) {
  moves m;
  m.reserve(static_cast<std::size_t>(columns * (before + rows + after)));
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = -before; r < rows + after; ++r)
      m.push_back(r >= 0 && r < rows ? static_cast<std::int32_t>(r * columns + c) : -1);
  return m;
}
// The way back: [columns, before + rows + after] -> [rows, columns].
moves turned_back(std::int64_t rows, std::int64_t columns, std::int64_t before = 0, std::int64_t after = 0) {
  moves m;
  m.reserve(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) m.push_back(static_cast<std::int32_t>(c * (before + rows + after) + before + r));
  return m;
}

struct turns final : plan {
  moves x, y, dx, dy;
  std::vector<double> ones;
};

struct sequence_convolution final : layer {
  static constexpr std::int64_t most_values = std::int64_t{1} << 24;  // of an example: a move has an index for each

  options given;
  std::int64_t outputs, kernel, stride, dilation, groups;
  bool bias;
  filler_spec weight_filler, bias_filler;

  explicit sequence_convolution(const options& o)
      : given(o),
        outputs(o.integer("outputs")),
        kernel(o.integer("kernel")),
        stride(o.integer("stride")),
        dilation(o.integer("dilation")),
        groups(o.integer("groups")),
        bias(o.flag("bias")),
        weight_filler(filler_from(o.table("weight_filler"), "xavier")),
        bias_filler(filler_from(o.table("bias_filler"), "constant")) {
    if (outputs % groups != 0) throw option_error("groups", "'outputs' must be a multiple of 'groups'");
  }

  conv_geometry geometry(const shape& x) const {
    const auto [before, after] = sequence_padding(given, x[1]);
    conv_geometry g;
    g.batch = x[0], g.channels = x[2], g.width = before + x[1] + after;
    g.outputs = outputs, g.kernel_w = kernel, g.stride_w = stride, g.dilation_w = dilation, g.groups = groups;
    return g;
  }

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() == 3, "one input [N, T, D]", in);
    want(in[0][2] % groups == 0, "a number of values in a step that is a multiple of groups = " + std::to_string(groups), in);
    const conv_geometry g = geometry(in[0]);
    const auto reach = dilation * (kernel - 1) + 1;
    want(g.width >= reach, "at least " + std::to_string(reach) + " steps with padding, as many as the kernel spans", in);
    want(g.width <= most_values && g.channels * g.width <= most_values && outputs * g.out_w() <= most_values,
         "at most " + std::to_string(most_values) + " values in an example, with padding, and in its output", in);
    return {shape{g.batch, g.out_w(), outputs}};
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, broadcast}, 1, bias ? 2 : 1);
  }
  param_specs params(const shapes& in) const override {
    param_specs p(1);
    p[0] = {.name = "weight", .dims = shape{outputs, in[0][2] / groups, kernel}, .filler = weight_filler};
    if (bias) p.push_back({.name = "bias", .dims = shape{outputs}, .filler = bias_filler});
    return p;
  }
  double flops(const shapes& in) const override {
    const conv_geometry g = geometry(in[0]);
    return 2.0 * static_cast<double>(g.batch * g.outputs * g.pixels()) * static_cast<double>(g.patch());
  }
  std::unique_ptr<plan> prepare(device&, const shapes& in, phase, dtype) const override {
    const conv_geometry g = geometry(in[0]);
    const auto [before, after] = sequence_padding(given, in[0][1]);
    auto p = std::make_unique<turns>();
    p->x = turned(in[0][1], g.channels, before, after), p->dx = turned_back(in[0][1], g.channels, before, after);
    p->dy = turned(g.out_w(), outputs), p->y = turned_back(g.out_w(), outputs);
    p->ones.assign(std::max(p->x.size(), p->y.size()), 1.0);
    return p;
  }

  static void move(context& c, const turns& p, const moves& m, const tensor& from, tensor& to) {
    const auto n = from.dims()[0];
    c.dev.resample({.outer = n,
                    .in = from.dims().count_from(1),
                    .out = static_cast<std::int64_t>(m.size()),
                    .index = m.data(),
                    .weight = p.ones.data()},
                   from, to);
  }
  static tensor moved(context& c, const turns& p, const moves& m, const tensor& from, const shape& to) {
    tensor t = tensor::allocate(c.dev, to, from.type());
    move(c, p, m, from, t);
    return t;
  }

  void forward(context& c, plan& of, const tensors& in, const tensors& params, tensors& out, saved&) const override {
    const auto& p = static_cast<const turns&>(of);
    const conv_geometry g = geometry(in[0].dims());
    const tensor x = moved(c, p, p.x, in[0], {g.batch, g.channels, g.width});
    tensor y = tensor::allocate(c.dev, {g.batch, outputs, g.out_w()}, in[0].type());
    c.dev.conv_forward(g, x, params[0], bias ? params[1] : tensor(), y);
    move(c, p, p.y, y, backed(c.dev, out[0]));
  }
  void backward(context& c, plan& of, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    const auto& p = static_cast<const turns&>(of);
    const conv_geometry g = geometry(s.inputs[0].dims());
    const tensor dy = moved(c, p, p.dy, grad_out[0], {g.batch, outputs, g.out_w()});
    const shape wide{g.batch, g.channels, g.width};
    if (wanted(grad_in, 0)) {
      tensor dx = tensor::allocate(c.dev, wide, dy.type());
      c.dev.conv_backward_data(g, dy, params[0], dx);
      move(c, p, p.dx, dx, backed(c.dev, grad_in[0]));
    }
    tensor dw = gradient_for(c.dev, grad_params[0], accumulate), db;
    if (bias) db = gradient_for(c.dev, grad_params[1], accumulate);
    if (!dw && !db) return;
    c.dev.conv_backward_parameters(g, moved(c, p, p.x, s.inputs[0], wide), dy, dw, db, false);
    keep_gradient(c.dev, grad_params[0], dw, accumulate);
    if (bias) keep_gradient(c.dev, grad_params[1], db, accumulate);
  }
};

std::vector<layer_case> sequence_convolution_cases() {
  using i = std::int64_t;
  const auto with = [](i outputs, i kernel, std::map<std::string, option_value, std::less<>> more = {}) {
    more["outputs"] = outputs, more["kernel"] = kernel;
    return options{std::move(more)};
  };
  const auto word = [](const char* w) { return option_value(std::string(w)); };
  return {example("plain", with(4, 3), {{2, 6, 3}}),
          example("padded, stride 2", with(3, 3, {{"pad", i{1}}, {"stride", i{2}}}), {{3, 8, 2}}),
          example("causal, dilation 3", with(2, 2, {{"pad", word("causal")}, {"dilation", i{3}}}), {{2, 5, 4}}),
          example("causal, stride 2", with(5, 4, {{"pad", word("causal")}, {"stride", i{2}}}), {{2, 7, 3}}),
          example("same, an even kernel", with(3, 4, {{"pad", word("same")}}), {{2, 5, 2}}),
          example("same, stride 3", with(2, 5, {{"pad", word("same")}, {"stride", i{3}}}), {{2, 10, 2}}),
          example("stride beyond the kernel", with(2, 1, {{"stride", i{3}}}), {{2, 8, 3}}),
          example("groups, no bias", with(6, 2, {{"groups", i{2}}, {"bias", false}}), {{2, 4, 4}}),
          example("one step", with(3, 1), {{4, 1, 5}}),
          example("the whole sequence", with(2, 5), {{3, 5, 1}})};
}

}  // namespace

layer_type sequence_convolution_layer() {
  auto pad = integer_option("pad", 0,
                            "steps of zeros before and after the sequence; same: so many that OT = T / stride, rounded up; "
                            "causal: dilation (kernel - 1) before it, so that no output depends on a later step");
  pad.choices = {"same", "causal"};
  return {.name = "sequence_convolution",
          .doc =
              "y[n, t, o] = bias[o] + sum over c and j of w[o, c, j] x[n, t stride + j dilation - pad, c]. [N, T, D] -> [N, OT, "
              "outputs], OT = (T + 2 pad - dilation (kernel - 1) - 1) / stride + 1, rounded down. weight [outputs, D / groups, "
              "kernel], bias [outputs], as in nn.Conv1d. For [N, C, L] see convolution.",
          .specs = {required_integer("outputs", "number of values of an output step"),
                    required_integer("kernel", "number of steps that the kernel reads"),
                    integer_option("stride", 1, "distance between windows, in steps", 1), pad,
                    integer_option("dilation", 1, "distance between kernel elements, in steps", 1),
                    integer_option("groups", 1, "number of independent groups of values and outputs", 1),
                    flag_option("bias", true, "add a bias to each output"),
                    table_option("weight_filler", "filler of the weights; default xavier"),
                    table_option("bias_filler", "filler of the bias; default zero")},
          .make = [](const options& o) { return std::make_unique<sequence_convolution>(o); },
          .cases = sequence_convolution_cases()};
}

}  // namespace troupe
