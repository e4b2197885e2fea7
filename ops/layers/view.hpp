// A layer whose output is its input's memory in another shape.  dx = dy in the shape of x.
#pragma once

#include "ops/layer_support.hpp"

namespace troupe {

struct view_layer : layer {
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false};
  }
  void forward(context&, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    out[0] = in[0].reshaped(out[0].dims());
  }
  void backward(context&, plan&, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (wanted(grad_in, 0)) grad_in[0] = grad_out[0].reshaped(grad_in[0].dims());
  }
};

}  // namespace troupe
