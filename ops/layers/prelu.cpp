// prelu: y = max(x, 0) + a[c] min(x, 0) with learned slopes a: one per channel (axis 1), or a
// single one (shared = true).
//   shapes    [N, C, ...] -> same; slope [C], or [1]
//   gradient  dx = dy for x > 0, a[c] dy otherwise; da[c] = sum of dy min(x, 0) over the channel
// He et al. 2015, eqs. 1, 9 to 11. Slopes start at 0.25 and do not decay unless the job sets
// decay_scale.
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct prelu final : layer {
  bool shared;
  filler_spec filler;
  explicit prelu(const options& o) : shared(o.flag("shared")) { filler.values.values["value"] = o.real("slope"); }

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() >= (shared ? 1 : 2), shared ? "one input" : "one input [N, C, ...]", in);
    return in;
  }
  signatures supported() const override {
    using enum distribution;
    auto s = alike({split_0, broadcast}, 1, 1);
    if (!shared) s.push_back({{split_1}, {split_0}, {split_1}});
    return s;
  }
  param_specs params(const shapes& in) const override {
    param_specs p(1);
    p[0] = {.name = "slope", .dims = shape{shared ? 1 : in[0][1]}, .filler = filler, .decay_multiplier = 0.0};
    return p;
  }
  struct extents {
    std::int64_t outer, channels, inner;
  };
  extents of(const shape& x) const { return shared ? extents{1, 1, x.count()} : extents{x[0], x[1], x.count_from(2)}; }

  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved&) const override {
    const auto e = of(in[0].dims());
    tensor below = tensor::allocate(c.dev, in[0].dims(), in[0].type());
    tensor& y = backed(c.dev, out[0]);
    c.dev.map(unary::relu, 0.0, in[0], y);
    c.dev.apply(binary::subtract, in[0], y, below);
    c.dev.blend(e.outer, e.channels, e.inner, y, {}, below, params[0], {}, y);
  }
  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    const tensor& x = s.inputs[0];
    const auto e = of(x.dims());
    tensor above = tensor::allocate(c.dev, x.dims(), x.type()), below = tensor::allocate(c.dev, x.dims(), x.type());
    assign_or_add(c.dev, grad_params[0], accumulate, [&](tensor& da) {
      c.dev.map(unary::relu, 0.0, x, above);
      c.dev.apply(binary::subtract, x, above, below);
      c.dev.reduce_product(e.outer, e.channels, e.inner, below, grad_out[0], da);
    });
    if (!wanted(grad_in, 0)) return;
    c.dev.map_backward(unary::relu, 0.0, {}, x, grad_out[0], above);  // dy where x > 0
    c.dev.apply(binary::subtract, grad_out[0], above, below);
    c.dev.blend(e.outer, e.channels, e.inner, above, {}, below, params[0], {}, backed(c.dev, grad_in[0]));
  }
};

}  // namespace

layer_type prelu_layer() {
  const options shared{{{"shared", true}}};
  return {
      .name = "prelu",
      .doc =
          "y = max(x, 0) + slope[c] min(x, 0) with learned slopes. [N, C, ...] -> same; slope [C], or [1] with shared = true. The "
          "gradient of a slope is the sum of dy min(x, 0). Slopes do not decay unless decay_scale is set. He et al. 2015.",
      .specs = {flag_option("shared", false, "one slope for all channels"),
                real_option("slope", 0.25, "initial value of the slopes")},
      .make = [](const options& o) { return std::make_unique<prelu>(o); },
      .cases = {example("image", {}, {{2, 3, 4, 5}}), example("rows", {}, {{4, 19}}), example("shared", shared, {{2, 3, 4}}),
                example("shared vector", shared, {{6}}), example("one element", {}, {{1, 1}}),
                example("size-1 axes", {}, {{3, 1, 1, 18}})}};
}

}  // namespace troupe
