// scale: y = w[c] x + b[c], c along axis 1.  dx = w[c] dy, dw[c] = sum of dy x, db[c] = sum of dy
// over the channel.
//   shapes  [N, C, ...] -> same; weight [C], with `bias` also bias [C].
// In Caffe, this layer follows the batch normalisation.
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct scale final : layer {
  bool bias;
  filler_spec weight_filler, bias_filler;
  explicit scale(const options& o) : bias(o.flag("bias")) {
    weight_filler = filler_from(o.table("weight_filler"), "constant");
    if (!o.table("weight_filler").has("kind") && !o.table("weight_filler").has("value")) weight_filler.values.values["value"] = 1.0;
    bias_filler = filler_from(o.table("bias_filler"), "constant");
  }

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() >= 2, "one input [N, C, ...]", in);
    return in;
  }
  signatures supported() const override {
    using enum distribution;
    const std::size_t n = bias ? 2 : 1;
    auto s = alike({split_0, broadcast}, 1, n);
    s.push_back({{split_1}, std::vector(n, split_0), {split_1}});
    return s;
  }
  param_specs params(const shapes& in) const override {
    param_specs p(1);
    p[0] = {.name = "weight", .dims = shape{in[0][1]}, .filler = weight_filler};
    if (bias) p.push_back({.name = "bias", .dims = shape{in[0][1]}, .filler = bias_filler});
    return p;
  }
  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved&) const override {
    const shape& x = in[0].dims();
    c.dev.blend(x[0], x[1], x.count_from(2), in[0], params[0], {}, {}, bias ? params[1] : tensor(), backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    const shape& x = s.inputs[0].dims();
    const tensor& dy = grad_out[0];
    if (wanted(grad_in, 0)) c.dev.blend(x[0], x[1], x.count_from(2), dy, params[0], {}, {}, {}, backed(c.dev, grad_in[0]));
    assign_or_add(c.dev, grad_params[0], accumulate,
                  [&](tensor& dw) { c.dev.reduce_product(x[0], x[1], x.count_from(2), s.inputs[0], dy, dw); });
    if (!bias) return;
    assign_or_add(c.dev, grad_params[1], accumulate, [&](tensor& db) { c.dev.reduce_sum(x[0], x[1], x.count_from(2), dy, db); });
  }
};

}  // namespace

layer_type scale_layer() {
  const options biased{{{"bias", true}}};
  return {.name = "scale",
          .doc =
              "y = weight[c] x + bias[c], c along axis 1. [N, C, ...] -> same; weight [C], and with bias = true bias [C]. "
              "dx = weight[c] dy, dweight[c] = sum of dy x, dbias[c] = sum of dy.",
          .specs = {flag_option("bias", false, "add a bias to each channel"),
                    table_option("weight_filler", "filler of the weights; default 1"),
                    table_option("bias_filler", "filler of the bias; default zero")},
          .make = [](const options& o) { return std::make_unique<scale>(o); },
          .cases = {example("image", {}, {{2, 3, 4, 5}}), example("image, bias", biased, {{2, 3, 4, 5}}),
                    example("rows", biased, {{4, 19}}), example("one element", {}, {{1, 1}}),
                    example("size-1 axes", biased, {{3, 1, 1, 18}}), example("one pixel", biased, {{2, 5, 1, 1}})}};
}

}  // namespace troupe
