// sigmoid_cross_entropy: loss = 1 / N sum over the elements of -t log p - (1 - t) log(1 - p), p = 1
// / (1 + exp(-x)), computed as max(x, 0) - x t + log(1 + exp(-|x|)).
//   shapes    x [N, ...], targets of the same shape -> scalar; or labels [N] i32: t = 1 at the
//             label's class, 0 elsewhere (with one logit per example: t = label > 0); a negative
//             label is padding and not counted in N
//   gradient  dx = dloss (p - t) / N; none for the targets
// Caffe's layer of the same name. PyTorch divides by the number of elements.
#include "ops/layers/element_loss.hpp"

namespace troupe {

namespace {

struct sigmoid_cross_entropy final : element_loss {
  explicit sigmoid_cross_entropy(const options& o) : element_loss(pointwise::sigmoid, o.text("mean") == "batch") {}
  shapes infer(const shapes& in) const override {
    want(in.size() == 2 && in[0].rank() >= 1 && (in[1] == in[0] || in[1] == shape{in[0][0]}),
         "logits [N, ...], and targets of that shape or labels [N]", in);
    return {shape{}};
  }
  // Targets have the logits' shape, labels one element per example. If both shapes are possible,
  // the type of the tensor decides.
  holding holds(std::size_t input, const shapes& in) const override {
    if (input == 0) return holding::values;
    const bool labels = in[1].rank() == 1 || (in[0].rank() > 0 && in[1].count() == in[0][0]);
    return in[1].count() != in[0].count() ? holding::ids : labels ? holding::any : holding::values;
  }
};

}  // namespace

layer_type sigmoid_cross_entropy_layer() {
  return {
      .name = "sigmoid_cross_entropy",
      .doc =
          "1 / N sum over the elements of -t log p - (1 - t) log(1 - p), p = sigmoid(x). x [N, ...] and targets of the same shape, "
          "or labels [N] i32 (t = 1 at the label's class; with one logit, t = label > 0) -> scalar. dx = dloss (p - t) / N.",
      .specs = {mean_option()},
      .make = [](const options& o) { return std::make_unique<sigmoid_cross_entropy>(o); },
      .cases = {example("targets", {}, {{4, 10}, {4, 10}}), example("image", {}, {{2, 3, 4, 5}, {2, 3, 4, 5}}),
                labelled("labels", {}, {{4, 10}, {4}}, 10), labelled("yes or no", {}, {{6, 1}, {6}}, 2),
                labelled("many classes", {}, {{2, 37}, {2}}, 37), labelled("vector", {}, {{5}, {5}}, 2),
                example("one element", {}, {{1, 1}, {1, 1}})},
      .min_inputs = 2,
      .max_inputs = 2};
}

}  // namespace troupe
