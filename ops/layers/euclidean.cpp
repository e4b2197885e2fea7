// euclidean: loss = 1 / (2 N) sum over the elements of (a - b)^2.
//   shapes    a, b [N, ...] of equal shape -> scalar
//   gradient  da = dloss (a - b) / N, db = -da.  Caffe's euclidean loss.
#include "ops/layers/element_loss.hpp"

namespace troupe {

namespace {

struct euclidean final : element_loss {
  euclidean() : element_loss(pointwise::squared) {}
  shapes infer(const shapes& in) const override {
    want(in.size() == 2 && in[0].rank() >= 1 && in[0] == in[1], "two inputs [N, ...] of one shape", in);
    return {shape{}};
  }
  bool differentiable(std::size_t) const override { return true; }
  void backward(context& c, plan& p, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    element_loss::backward(c, p, s, params, grad_out, grad_in, grad_params, accumulate);
    if (!wanted(grad_in, 1)) return;
    const auto n = s.extra[0].count();
    c.dev.blend(1, 1, n, s.extra[0], grad_out[0], {}, {}, {}, backed(c.dev, grad_in[1]));
    c.dev.scale(-1.0, grad_in[1]);
  }
};

}  // namespace

layer_type euclidean_layer() {
  return {
      .name = "euclidean",
      .doc =
          "1 / (2 N) sum over the elements of (a - b)^2. a, b [N, ...] of equal shape -> scalar. da = dloss (a - b) / N, db = -da.",
      .specs = {},
      .make = [](const options&) { return std::make_unique<euclidean>(); },
      .cases = {example("rows", {}, {{4, 10}, {4, 10}}), example("image", {}, {{2, 3, 4, 5}, {2, 3, 4, 5}}),
                example("vector", {}, {{7}, {7}}), example("one element", {}, {{1, 1}, {1, 1}}),
                example("long rows", {}, {{2, 37}, {2, 37}})},
      .min_inputs = 2,
      .max_inputs = 2};
}

}  // namespace troupe
