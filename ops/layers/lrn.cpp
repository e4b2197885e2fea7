// lrn: y = x scale^-beta, scale = k + alpha / |window| sum over the window of x^2.
//   window    across_channels: `size` channels centred on the pixel's own; within_channel: size x
//             size pixels of one channel
//   shapes    [N, C, H, W] -> same
//   gradient  dx = dy scale^-beta - 2 alpha beta / |window| x sum over the window of (dy y / scale)
// Krizhevsky et al. 2012, section 3.3; alpha / |window| as in Caffe and torch.nn.LocalResponseNorm.
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct lrn final : layer {
  lrn_geometry base;
  explicit lrn(const options& o) {
    base.size = o.integer("size");
    if (base.size % 2 == 0) throw option_error("size", "'size' must be odd");
    base.alpha = o.real("alpha"), base.beta = o.real("beta"), base.k = o.real("k");
    base.across_channels = o.text("region") == "across_channels";
  }

  lrn_geometry geometry(const shape& x) const {
    lrn_geometry g = base;
    g.batch = x[0], g.channels = x[1], g.height = x[2], g.width = x[3];
    return g;
  }
  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() == 4, "one input [N, C, H, W]", in);
    return in;
  }
  signatures supported() const override {
    using enum distribution;
    return base.across_channels ? alike({split_0, broadcast}, 1) : alike({split_0, split_1, broadcast}, 1);
  }
  struct backward_needs backward_needs(const shapes& in) const override {
    return {.saved_bytes = in[0].count() * 4};
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved& s) const override {
    s.extra = {tensor::allocate(c.dev, in[0].dims(), in[0].type())};
    c.dev.lrn(geometry(in[0].dims()), in[0], backed(c.dev, out[0]), s.extra[0]);
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!wanted(grad_in, 0)) return;
    c.dev.lrn_backward(geometry(s.inputs[0].dims()), s.inputs[0], s.extra[0], grad_out[0], backed(c.dev, grad_in[0]));
  }
};

}  // namespace

layer_type lrn_layer() {
  using i = std::int64_t;
  const std::string within = "within_channel";
  return {
      .name = "lrn",
      .doc =
          "Local response normalisation: y = x scale^-beta, scale = k + alpha / |window| * sum over the window of x^2. The window "
          "is `size` channels, or size x size pixels of one channel. [N, C, H, W] -> same. Krizhevsky et al. 2012, 3.3.",
      .specs = {integer_option("size", 5, "extent of the window; odd", 1),
                real_option("alpha", 1.0, "factor of the sum of squares", 0.0), real_option("beta", 0.75, "exponent", 0.0),
                real_option("k", 1.0, "constant added to the sum", 1e-12),
                choice_option("region", {"across_channels", "within_channel"}, "direction of the window")},
      .make = [](const options& o) { return std::make_unique<lrn>(o); },
      .cases = {example("across", {}, {{2, 7, 3, 4}}),
                example("across, wider than the channels", {{{"size", i{9}}}}, {{2, 3, 2, 2}}),
                example("within", {{{"size", i{3}}, {"region", within}}}, {{2, 2, 5, 4}}),
                example("within, wider than the image", {{{"size", i{5}}, {"region", within}, {"alpha", 2.0}}}, {{1, 2, 2, 3}}),
                example("other exponent", {{{"beta", 0.6}, {"k", 2.0}, {"size", i{3}}}}, {{2, 4, 3, 3}}),
                example("size 1, one pixel", {{{"size", i{1}}}}, {{3, 2, 1, 1}})}};
}

}  // namespace troupe
