// Base of losses of a prediction and its target: a mean over the packet, no gradient for the
// target, and one tensor of the prediction's size from forward to backward.
#pragma once

#include "ops/layer_support.hpp"

namespace troupe {

// The number of labels that are not negative, one element of type t.
inline tensor counted_labels(device& d, const tensor& labels, dtype t) {
  const auto n = labels.count();
  tensor values = tensor::allocate(d, shape{n}, t), rectified = tensor::allocate(d, shape{n}, t);
  tensor ones = tensor::allocate(d, shape{n}, t), counts = tensor::allocate(d, shape{n}, t), sum = tensor::allocate(d, shape{1}, t);
  d.copy(labels, values);
  d.map(unary::relu, 0.0, values, rectified);
  d.fill(1.0, ones);
  d.select_equal(values, rectified, ones, counts);
  d.reduce_sum(1, 1, n, counts, sum);
  return sum;
}

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

// A loss of labels that may be a mean over the labels of all packets of a step (mean = "batch"): a
// packet's loss and gradient are multiplied by packets x (what counts in it) / (what counts in the
// step), so that the mean over the packets is the sum over all labels / what counts in the step.
struct label_loss : loss_layer, joint_maths {
  explicit label_loss(bool over_batch) : over_batch_(over_batch) {}
  const joint_maths* joint() const override { return over_batch_ ? this : nullptr; }

  // The measurement of forward is what counts in the packet; that of backward is not used.
  shape measured(const shapes&) const override { return {1}; }
  tensor measure(context& c, const tensors& in) const override {
    if (auto weight = mean_weight(c, in)) return weight;
    return one_number(c.dev, static_cast<double>(in[0].dims()[0]), wide_of(in[0].type()));
  }
  void forward_with(context& c, const tensors& all, const tensors& in, const tensors& params, tensors& out,
                    saved& s) const override {
    forward(c, *plan_of(c, in[0]), in, params, out, s);
    s.extra.push_back(factor_of(c, all));
    tensor whole = tensor::allocate(c.dev, out[0].dims(), out[0].type());
    c.dev.apply(binary::multiply, out[0], s.extra.back(), whole);
    out[0] = whole;
  }
  tensor measure_back(context& c, const saved&, const tensors&, const tensors& grad_out, tensors&) const override {
    return one_number(c.dev, 0, grad_out[0].type());
  }
  void backward_with(context& c, const tensors&, const saved& s, const tensors& params, const tensors& grad_out,
                     tensors& grad_in) const override {
    tensor slope = tensor::allocate(c.dev, grad_out[0].dims(), grad_out[0].type());
    c.dev.apply(binary::multiply, grad_out[0], s.extra.back(), slope);
    tensors none;
    backward(c, *plan_of(c, s.extra[0]), s, params, {slope}, grad_in, none, false);
  }

 private:
  std::unique_ptr<plan> plan_of(context& c, const tensor& like) const { return prepare(c.dev, {like.dims()}, c.ph, like.type()); }
  static tensor one_number(device& d, double value, dtype t) {
    tensor x = tensor::allocate(d, shape{1}, t);
    d.fill(value, x);
    return x;
  }
  // 0 if nothing counts in the step.
  static tensor factor_of(context& c, const tensors& all) {
    constexpr double tiny = 1e-30;  // instead of a division by 0
    const auto t = all[0].type();
    if (all.size() == 1) return one_number(c.dev, 1, t);
    tensor sum = one_number(c.dev, 0, t), inverse = tensor::allocate(c.dev, shape{1}, t);
    for (const auto& one : all) c.dev.axpy(1.0, one, sum);
    c.dev.map(unary::square, 0.0, sum, inverse);
    c.dev.map(unary::inverse_root, tiny, inverse, inverse);
    tensor factor = tensor::allocate(c.dev, shape{1}, t);
    c.dev.apply(binary::multiply, all[c.packet], inverse, factor);
    c.dev.scale(static_cast<double>(all.size()), factor);
    return factor;
  }

  bool over_batch_;
};

inline option_spec mean_option() {
  return choice_option("mean", {"packet", "batch"},
                       "labels over which the mean is taken in training: those of one packet, or of the step's whole batch");
}

}  // namespace troupe
