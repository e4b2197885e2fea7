// Losses that are a sum over elements, divided by the packet's valid examples, as Caffe counts
// them. Forward leaves the slope of the loss at each element, so that backward is one product.
#pragma once

#include "ops/layers/loss.hpp"

namespace troupe {

struct element_loss : loss_layer {
  explicit element_loss(pointwise f) : f_(f) {}

  // One score is a yes or no. With any number of them labels are compared and never looked up; but
  // one beyond the scores is a mistake.
  std::int64_t ids_below(std::size_t input, const shapes& in) const override {
    const auto scores = loss_layer::ids_below(input, in);
    return scores > 1 ? scores : 0;
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved& s) const override {
    s.extra = {tensor::allocate(c.dev, in[0].dims(), wide_of(in[0].type()))};
    c.dev.pointwise_loss(f_, in[0], in[1], s.extra[0], backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    const auto n = s.extra[0].count();
    if (wanted(grad_in, 0)) c.dev.blend(1, 1, n, s.extra[0], grad_out[0], {}, {}, {}, backed(c.dev, grad_in[0]));
  }

 private:
  pointwise f_;
};

}  // namespace troupe
