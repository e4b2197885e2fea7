// Base of losses of a prediction and its target: a mean over the packet, no gradient for the
// target, and one tensor of the prediction's size from forward to backward.
#pragma once

#include "ops/layer_support.hpp"

namespace troupe {

struct loss_layer : layer {
  signatures supported() const override {
    using enum distribution;
    return {{{split_0, split_0}, {}, {partial}}, {{broadcast, broadcast}, {}, {broadcast}}};
  }
  bool is_loss() const override { return true; }
  bool differentiable(std::size_t input) const override { return input == 0; }
  struct backward_needs backward_needs(const shapes& in) const override {
    return {.inputs = false, .outputs = false, .saved_bytes = in[0].count() * 4};
  }
};

}  // namespace troupe
