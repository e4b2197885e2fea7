// channel_scale: y[n, c, ...] = a[n, c] x[n, c, ...]: each channel of each example by its own
// number.
//   shapes    x [N, C, ...], a [N, C] or [N, C, 1, ...] -> that of x
//   gradient  dx = a[n, c] dy; da[n, c] = the sum of dy x over the channel
// The product of squeeze and excitation (Hu et al. 2018), whose a are sigmoids of means.
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct channel_scale final : layer {
  shapes infer(const shapes& in) const override {
    want(in.size() == 2 && in[0].rank() >= 2 && in[1].rank() >= 2 && in[1][0] == in[0][0] && in[1][1] == in[0][1] &&
             in[1].count_from(2) == 1,
         "two inputs [N, C, ...] and [N, C] (or [N, C, 1, 1])", in);
    return {in[0]};
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, split_1, broadcast}, 2);
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = true, .outputs = false};
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    const shape& x = in[0].dims();
    c.dev.blend(1, x[0] * x[1], x.count_from(2), in[0], in[1], {}, {}, {}, backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    const shape& x = s.inputs[0].dims();
    const auto channels = x[0] * x[1];
    const tensor& dy = grad_out[0];
    if (wanted(grad_in, 0)) c.dev.blend(1, channels, x.count_from(2), dy, s.inputs[1], {}, {}, {}, backed(c.dev, grad_in[0]));
    if (wanted(grad_in, 1)) c.dev.reduce_product(1, channels, x.count_from(2), s.inputs[0], dy, backed(c.dev, grad_in[1]));
  }
};

}  // namespace

layer_type channel_scale_layer() {
  return {
      .name = "channel_scale",
      .doc =
          "y[n, c, ...] = a[n, c] x[n, c, ...], as in squeeze and excitation. Inputs x [N, C, ...] and a [N, C] or "
          "[N, C, 1, 1] -> the shape of x. dx = a dy, da[n, c] = sum of dy x over the channel. Hu et al. 2018.",
      .specs = {},
      .make = [](const options&) { return std::make_unique<channel_scale>(); },
      .cases = {example("image", {}, {{2, 3, 4, 5}, {2, 3}}), example("image, as from a pooling", {}, {{2, 3, 4, 5}, {2, 3, 1, 1}}),
                example("series", {}, {{2, 3, 19}, {2, 3, 1}}), example("rows", {}, {{4, 19}, {4, 19}}),
                example("one element", {}, {{1, 1}, {1, 1}}), example("one pixel", {}, {{2, 5, 1, 1}, {2, 5, 1, 1}})},
      .min_inputs = 2,
      .max_inputs = 2};
}

}  // namespace troupe
