// deconvolution: transposed convolution. Its forward is the gradient of a convolution with respect
// to the input.
//   formula   y[n, o] = bias[o] + sum over c of w[c, o] spread by x[n, c]:
//             y[i stride - pad + k dilation] += x[i] w[k]
//   shapes    x [N, C, H, W] -> y [N, outputs, OH, OW],
//             OH = (H - 1) stride - 2 pad + dilation (kernel - 1) + 1 + output_pad;
//             w [C, outputs / groups, kernel_h, kernel_w], bias [outputs];
//             [N, C, L] as images of height 1, with w [C, outputs / groups, kernel]
//   gradient  dx = dy convolved with w, dw = x correlated with dy, dbias = sum of dy
//   Zeiler et al. 2010; Caffe, PyTorch.
//   Cannot be split by feature: the weights are ordered by input channel.
#include "ops/layers/conv_window.hpp"

namespace troupe {

namespace {

struct deconvolution final : layer {
  conv_geometry base;  // of the transposed convolution: its input is the output of this layer
  std::int64_t outputs;
  by_axes output_pad;
  bool bias;
  filler_spec weight_filler, bias_filler;

  explicit deconvolution(const options& o)
      : base(conv_window(o)), outputs(base.outputs), output_pad(o.by_axis("output_pad")), bias(o.flag("bias")) {
    if (output_pad[0] >= base.stride_h || output_pad[1] >= base.stride_w)
      throw option_error("output_pad", "'output_pad' must be smaller than 'stride'");
    weight_filler = filler_from(o.table("weight_filler"), "xavier");
    bias_filler = filler_from(o.table("bias_filler"), "constant");
  }

  conv_geometry geometry(const shape& x) const {
    conv_geometry g = conv_on(base, x);
    g.channels = outputs, g.outputs = x[1];
    g.height = (g.height - 1) * g.stride_h - 2 * g.pad_h + g.dilation_h * (g.kernel_h - 1) + 1;
    g.width = (g.width - 1) * g.stride_w - 2 * g.pad_w + g.dilation_w * (g.kernel_w - 1) + 1 + output_pad[1];
    if (x.rank() == 4) g.height += output_pad[0];
    return g;
  }
  shapes infer(const shapes& in) const override {
    want_images(base, in);
    want(in[0].rank() == 4 || output_pad[0] == output_pad[1], "one input [N, C, H, W] for an output_pad that differs by axis", in);
    want(in[0][1] % base.groups == 0, "a number of channels that is a multiple of groups = " + std::to_string(base.groups), in);
    const conv_geometry g = geometry(in[0]);
    want(g.height > 0 && g.width > 0, "an output that is not empty with pad = " + text_of({g.pad_h, g.pad_w}), in);
    return {images_like(in[0], outputs, {g.height, g.width})};
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, broadcast}, 1, bias ? 2 : 1);
  }
  param_specs params(const shapes& in) const override {
    param_specs p(1);
    p[0] = {.name = "weight", .dims = conv_weights(base, in[0], in[0][1], outputs / base.groups), .filler = weight_filler};
    if (bias) p.push_back({.name = "bias", .dims = shape{outputs}, .filler = bias_filler});
    return p;
  }
  double flops(const shapes& in) const override {
    const conv_geometry g = geometry(in[0]);
    return 2.0 * static_cast<double>(g.batch * g.outputs * g.pixels()) * static_cast<double>(g.patch());
  }
  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved&) const override {
    const conv_geometry g = geometry(in[0].dims());
    c.dev.conv_backward_data(g, in[0], params[0], backed(c.dev, out[0]));
    if (bias) c.dev.add_bias(g.batch, outputs, g.height * g.width, params[1], out[0]);
  }
  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    const conv_geometry g = geometry(s.inputs[0].dims());
    if (wanted(grad_in, 0)) c.dev.conv_forward(g, grad_out[0], params[0], tensor(), backed(c.dev, grad_in[0]));
    assign_or_add(c.dev, grad_params[0], accumulate,
                  [&](tensor& dw) { c.dev.conv_backward_weights(g, grad_out[0], s.inputs[0], dw); });
    if (!bias) return;
    assign_or_add(c.dev, grad_params[1], accumulate,
                  [&](tensor& db) { c.dev.reduce_sum(g.batch, outputs, g.height * g.width, grad_out[0], db); });
  }
};

std::vector<layer_case> deconvolution_cases() {
  using i = std::int64_t;
  return {
      example("plain", conv_options(3, 3), {{2, 2, 4, 5}}),
      example("twice as large", conv_options(4, 4, {{"stride", i{2}}, {"pad", i{1}}}), {{2, 3, 3, 4}}),
      example("output pad", conv_options(2, 3, {{"stride", i{3}}, {"output_pad", i{2}}}), {{2, 1, 3, 2}}),
      example("groups", conv_options(6, 3, {{"groups", i{2}}, {"pad", i{1}}}), {{2, 4, 5, 4}}),
      example("depthwise", conv_options(3, 2, {{"groups", i{3}}, {"stride", i{2}}}), {{2, 3, 3, 3}}),
      example("dilation", conv_options(2, 3, {{"dilation", i{2}}, {"pad", i{2}}}), {{2, 2, 4, 4}}),
      example("oblong kernel, no bias", conv_options(2, 0, {{"kernel_h", i{1}}, {"kernel_w", i{4}}, {"bias", false}}),
              {{2, 2, 3, 3}}),
      example("stride, pad and output pad by axis",
              conv_options(2, 3, {{"stride", pair_of(3, 2)}, {"pad", pair_of(0, 1)}, {"output_pad", pair_of(2, 0)}}),
              {{2, 2, 3, 4}}),
      example(
          "kernel and dilation by axis, groups",
          conv_options(4, 0, {{"kernel", pair_of(3, 2)}, {"dilation", pair_of(1, 3)}, {"pad", pair_of(1, 2)}, {"groups", i{2}}}),
          {{2, 4, 3, 4}}),
      example("a series", conv_options(3, 3, {{"stride", i{2}}, {"pad", i{1}}, {"output_pad", i{1}}}), {{2, 4, 5}}),
      example("one pixel", conv_options(5, 3), {{3, 4, 1, 1}}),
      example("stride beyond the kernel", conv_options(2, 1, {{"stride", i{2}}}), {{1, 2, 3, 3}}),
  };
}

}  // namespace

layer_type deconvolution_layer() {
  return {.name = "deconvolution",
          .doc =
              "Transposed convolution: y[i stride - pad + k dilation] += x[i] w[k]. [N, C, H, W] -> [N, outputs, OH, OW], OH = (H "
              "- 1) stride - 2 pad + dilation (kernel - 1) + 1 + output_pad. weight [C, outputs / groups, kernel_h, kernel_w], "
              "bias [outputs]. [N, C, L] -> [N, outputs, OL], with weight [C, outputs / groups, kernel]. dx = dy convolved with w. "
              "Zeiler et al. 2010.",
          .specs = {required_integer("outputs", "number of output channels"),
                    by_axis_option("kernel", 0, "height and width of the kernel"),
                    integer_option("kernel_h", 0, "height of the kernel, if not square"),
                    integer_option("kernel_w", 0, "width of the kernel, if not square"),
                    by_axis_option("stride", 1, "distance between the windows of neighbouring pixels, in output pixels", 1),
                    by_axis_option("pad", 0, "rows and columns removed on each side of the output"),
                    by_axis_option("output_pad", 0, "rows and columns added at the bottom and right; less than stride"),
                    by_axis_option("dilation", 1, "distance between kernel elements, in pixels", 1),
                    integer_option("groups", 1, "number of independent groups of channels and outputs", 1),
                    flag_option("bias", true, "add a bias to each output channel"),
                    table_option("weight_filler", "filler of the weights; default xavier"),
                    table_option("bias_filler", "filler of the bias; default zero")},
          .make = [](const options& o) { return std::make_unique<deconvolution>(o); },
          .cases = deconvolution_cases()};
}

}  // namespace troupe
