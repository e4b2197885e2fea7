// bias: y = x + b[c], c along axis 1.  dx = dy, db[c] = sum of dy over the channel.
//   shapes  [N, C, ...] -> same; bias [C].  Caffe's bias layer.
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct bias final : layer {
  filler_spec filler;
  explicit bias(const options& o) : filler(filler_from(o.table("bias_filler"), "constant")) {}

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() >= 2, "one input [N, C, ...]", in);
    return in;
  }
  signatures supported() const override {
    using enum distribution;
    auto s = alike({split_0, broadcast}, 1, 1);
    s.push_back({{split_1}, {split_0}, {split_1}});
    return s;
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false};
  }
  param_specs params(const shapes& in) const override {
    param_specs p(1);
    p[0] = {.name = "bias", .dims = shape{in[0][1]}, .filler = filler};
    return p;
  }
  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved&) const override {
    const shape& x = in[0].dims();
    c.dev.blend(x[0], x[1], x.count_from(2), in[0], {}, {}, {}, params[0], backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors& grad_params,
                bool accumulate) const override {
    const shape& x = grad_out[0].dims();
    if (wanted(grad_in, 0)) grad_in[0] = grad_out[0];
    assign_or_add(c.dev, grad_params[0], accumulate,
                  [&](tensor& db) { c.dev.reduce_sum(x[0], x[1], x.count_from(2), grad_out[0], db); });
  }
};

}  // namespace

layer_type bias_layer() {
  return {.name = "bias",
          .doc = "y = x + bias[c], c along axis 1. [N, C, ...] -> same; bias [C]. dx = dy, dbias[c] = sum of dy.",
          .specs = {table_option("bias_filler", "filler of the bias; default zero")},
          .make = [](const options& o) { return std::make_unique<bias>(o); },
          .cases = {example("image", {}, {{2, 3, 4, 5}}), example("rows", {}, {{4, 19}}), example("one element", {}, {{1, 1}}),
                    example("size-1 axes", {}, {{3, 1, 1, 18}}), example("one pixel", {}, {{2, 5, 1, 1}})}};
}

}  // namespace troupe
