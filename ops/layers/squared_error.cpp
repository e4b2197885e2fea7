// squared_error: 1 / N sum over the elements of (a - b)^2, e.g. to evaluate reconstructions. A
// metric: no gradient.
//   shapes  a, b [N, ...] of equal shape -> scalar
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct squared_error final : layer {
  shapes infer(const shapes& in) const override {
    want(in.size() == 2 && in[0].rank() >= 1 && in[0] == in[1], "two inputs [N, ...] of one shape", in);
    return {shape{}};
  }
  signatures supported() const override {
    using enum distribution;
    return {{{split_0, split_0}, {}, {partial}}, {{broadcast, broadcast}, {}, {broadcast}}};
  }
  bool is_metric() const override { return true; }
  bool more_is_better() const override { return false; }
  bool test_phase_only() const override { return true; }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false};
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    tensor slope = tensor::allocate(c.dev, in[0].dims(), wide_of(in[0].type()));
    c.dev.pointwise_loss(pointwise::squared, in[0], in[1], slope, backed(c.dev, out[0]));
    c.dev.scale(2.0, out[0]);
  }
  void backward(context&, plan&, const saved&, const tensors&, const tensors&, tensors&, tensors&, bool) const override {}
};

}  // namespace

layer_type squared_error_layer() {
  return {.name = "squared_error",
          .doc = "1 / N sum over the elements of (a - b)^2. a, b [N, ...] of equal shape -> scalar. A metric of the test phase.",
          .specs = {},
          .make = [](const options&) { return std::make_unique<squared_error>(); },
          .cases = {example("rows", {}, {{4, 10}, {4, 10}}), example("image", {}, {{2, 3, 4, 5}, {2, 3, 4, 5}}),
                    example("vector", {}, {{7}, {7}}), example("one element", {}, {{1, 1}, {1, 1}}),
                    example("long rows", {}, {{2, 37}, {2, 37}})},
          .min_inputs = 2,
          .max_inputs = 2};
}

}  // namespace troupe
