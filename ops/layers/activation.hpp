// Base of element-wise activations: any shape -> same, y = f(x) by device::map, any distribution.
#pragma once

#include "ops/layer_support.hpp"

namespace troupe {

struct activation : layer {
  explicit activation(unary f, double parameter = 0.0) : f_(f), parameter_(parameter) {}

  shapes infer(const shapes& in) const override {
    want(in.size() == 1, "one input", in);
    return in;
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, split_1, broadcast}, 1);
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = device::needs_input(f_), .outputs = !device::needs_input(f_)};
  }
  bool in_place() const override { return true; }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    c.dev.map(f_, parameter_, in[0], backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!wanted(grad_in, 0)) return;
    const bool from_input = device::needs_input(f_);
    c.dev.map_backward(f_, parameter_, from_input ? s.inputs[0] : tensor(), from_input ? tensor() : s.outputs[0], grad_out[0],
                       backed(c.dev, grad_in[0]));
  }

  unary function() const { return f_; }
  double parameter() const { return parameter_; }
  bool rectifies() const { return f_ == unary::relu && parameter_ == 0.0; }  // max(0, x)

 private:
  unary f_;
  double parameter_;
};

inline std::vector<layer_case> activation_cases() {
  return {example("image", {}, {{2, 3, 4, 5}}), example("vector", {}, {{7}}), example("one element", {}, {{1, 1}}),
          example("longer than a register", {}, {{2, 37}}), example("size-1 axes", {}, {{3, 1, 1, 5}})};
}

}  // namespace troupe
