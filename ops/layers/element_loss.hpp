// Base of losses that are a sum over elements divided by the number of valid examples of the
// packet, as in Caffe. Forward saves the derivative of the loss for each element; backward
// multiplies it.
#pragma once

#include "ops/layers/loss.hpp"

namespace troupe {

struct element_loss : label_loss {
  explicit element_loss(pointwise f, bool over_batch = false) : label_loss(over_batch), f_(f) {}

  // With a single score, labels are only compared with 0, so any label is valid. With several
  // scores, a label must be one of them.
  std::int64_t ids_below(std::size_t input, const shapes& in) const override {
    const auto scores = loss_layer::ids_below(input, in);
    return scores > 1 ? scores : 0;
  }
  tensor mean_weight(context& c, const tensors& in) const override {
    return in[1].type() == dtype::i32 ? counted_labels(c.dev, in[1], wide_of(in[0].type())) : tensor{};
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
