// relu: y = x for x > 0, slope x otherwise.  dx = dy for y > 0, slope dy otherwise (slope >= 0, so y has the sign of x).
//   shapes  any -> same.  Nair and Hinton 2010; with a slope: Maas et al. 2013.
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct relu final : layer {
  double slope;
  explicit relu(const options& o) : slope(o.real("slope")) {}

  shapes infer(const shapes& in) const override {
    want(in.size() == 1, "one input", in);
    return in;
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, split_1, broadcast}, 1);
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false, .outputs = true};
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    c.dev.map(unary::relu, slope, in[0], backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!wanted(grad_in, 0)) return;
    c.dev.map_backward(unary::relu, slope, tensor(), s.outputs[0], grad_out[0], backed(c.dev, grad_in[0]));
  }
};

}  // namespace

layer_type relu_layer() {
  return {.name = "relu",
          .doc = "y = x for x > 0, slope x otherwise. Any shape. Nair and Hinton 2010.",
          .specs = {real_option("slope", 0.0, "slope for x < 0", 0.0)},
          .make = [](const options& o) { return std::make_unique<relu>(o); },
          .cases = {example("image", {}, {{2, 3, 4, 5}}), example("vector", {}, {{7}}),
                    example("leaky", {{{"slope", 0.1}}}, {{3, 11}}), example("one element", {}, {{1, 1}}),
                    example("longer than a register", {{{"slope", 1.5}}}, {{2, 37}}), example("size-1 axes", {}, {{3, 1, 1, 5}})}};
}

}  // namespace troupe
