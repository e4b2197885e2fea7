// softmax_loss: loss = mean over the valid labels of -log p[label], p = softmax(logits). A negative
// label is padding; a label beyond the scores makes the loss NaN. With label_smoothing e, in all
// phases: the mean of -sum over the classes of t log p, t = (1 - e) onehot(label) + e / C, as in
// torch.nn.CrossEntropyLoss. Szegedy et al. 2016, section 7. Without, t = onehot(label).
//   shapes    logits [N, ...] of C classes, labels [N] i32 -> scalar; or one label per position:
//             logits [N, T, ...], labels [N, T]
//   gradient  dlogits = dloss (p - t) / valid labels
// Padding occurs in evaluation only: a packet's loss is the mean over its own valid labels.
#include "ops/layers/loss.hpp"

namespace troupe {

namespace {

struct softmax_loss final : loss_layer {
  explicit softmax_loss(double label_smoothing) : smoothing(label_smoothing) {}

  shapes infer(const shapes& in) const override {
    want(in.size() == 2 && scores_of_labels(in[0], in[1]), "logits [N, C] and labels [N], or [N, T, C] and [N, T]", in);
    return {shape{}};
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved& s) const override {
    const tensor rows = in[0].reshaped(shape{in[1].count(), in[0].count() / in[1].count()});
    s.extra = {tensor::allocate(c.dev, rows.dims(), wide_of(rows.type())), in[1]};
    c.dev.softmax_loss(smoothing, rows, in[1], s.extra[0], backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (wanted(grad_in, 0)) c.dev.softmax_loss_backward(smoothing, s.extra[0], s.extra[1], grad_out[0], backed(c.dev, grad_in[0]));
  }

  double smoothing;
};

}  // namespace

layer_type softmax_loss_layer() {
  return {.name = "softmax_loss",
          .doc =
              "Mean over the valid labels of -log softmax(logits)[label]; a negative label is padding. logits [N, C], labels [N] "
              "i32, or logits [N, T, C], labels [N, T] -> scalar.",
          .specs = {real_option("label_smoothing", 0.0,
                                "share of the target that is spread evenly over all classes, in every phase", 0.0, 1.0)},
          .make = [](const options& o) { return std::make_unique<softmax_loss>(o.real("label_smoothing")); },
          .cases = {labelled("ten classes", {}, {{4, 10}, {4}}, 10), labelled("one example", {}, {{1, 3}, {1}}, 3),
                    labelled("one class", {}, {{3, 1}, {3}}, 1), labelled("many classes", {}, {{2, 37}, {2}}, 37),
                    labelled("trailing axes", {}, {{3, 5, 1, 1}, {3}}, 5), labelled("sequences", {}, {{3, 4, 5}, {3, 4}}, 5),
                    labelled("smoothed", {{{"label_smoothing", 0.1}}}, {{4, 37}, {4}}, 37),
                    labelled("even targets", {{{"label_smoothing", 1.0}}}, {{2, 3}, {2}}, 3),
                    labelled("smoothed sequences", {{{"label_smoothing", 0.25}}}, {{3, 4, 5}, {3, 4}}, 5)},
          .min_inputs = 2,
          .max_inputs = 2};
}

}  // namespace troupe
