// softmax: y = exp(x) / sum over axis 1 of exp(x).  dx = y (dy - sum over axis 1 of y dy).
//   shapes  [N, C, ...] -> same.  Bridle 1990.
// softmax_loss combines it with a loss. Cannot be split by feature: the sum is over features.
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct softmax final : layer {
  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() >= 2, "one input [N, C, ...]", in);
    return in;
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, broadcast}, 1);
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false, .outputs = true};
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    const shape& x = in[0].dims();
    c.dev.softmax(x[0], x[1], x.count_from(2), in[0], backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    const shape& x = grad_out[0].dims();
    if (wanted(grad_in, 0))
      c.dev.softmax_backward(x[0], x[1], x.count_from(2), s.outputs[0], grad_out[0], backed(c.dev, grad_in[0]));
  }
};

}  // namespace

layer_type softmax_layer() {
  return {.name = "softmax",
          .doc = "y = exp(x) / sum over axis 1 of exp(x), dx = y (dy - sum of y dy). [N, C, ...] -> same. Bridle 1990.",
          .specs = {},
          .make = [](const options&) { return std::make_unique<softmax>(); },
          .cases = {example("rows", {}, {{4, 10}}), example("image", {}, {{2, 3, 4, 5}}), example("one class", {}, {{3, 1}}),
                    example("many classes", {}, {{2, 37}}), example("more pixels than a strip", {}, {{2, 3, 7, 11}}),
                    example("one example", {}, {{1, 2, 1}})}};
}

}  // namespace troupe
