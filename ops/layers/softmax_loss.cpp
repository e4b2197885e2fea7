// softmax_loss: loss = mean over the valid labels of -log p[label], p = softmax(logits). A negative
// label is padding; a label beyond the scores makes the loss NaN. With label_smoothing e, in all
// phases: the mean of -sum over the classes of t log p, t = (1 - e) onehot(label) + e / C, as in
// torch.nn.CrossEntropyLoss. Szegedy et al. 2016, section 7. Without, t = onehot(label).
//   shapes    logits [N, ...] of C classes, labels [N] i32 -> scalar; or one label per position:
//             logits [N, T, ...], labels [N, T]
//   gradient  dlogits = dloss (p - t) / valid labels
// With class_weights w, as in torch.nn.CrossEntropyLoss(weight = w): t of a class is multiplied by
// its weight, and the mean is sum of loss / sum of w[label] over the valid labels.
//   gradient  dlogits = dloss ((sum of t) p - t) / sum of w[label]
// A packet's loss is divided by the weights of its own labels: with several packets, the loss of a
// training step is the mean of their losses, and differs from torch's for the whole batch. With
// mean = "batch" it is divided by those of all packets of the step (label_loss), and does not
// differ. The loss of an evaluation is the mean over all of its labels (mean_weight).
#include <cmath>
#include <variant>
#include <vector>

#include "ops/layers/loss.hpp"

namespace troupe {

namespace {

struct softmax_loss final : label_loss {
  softmax_loss(const options& o, std::vector<double> class_weights, bool balanced)
      : label_loss(o.text("mean") == "batch"),
        smoothing(o.real("label_smoothing")),
        weights(std::move(class_weights)),
        uncounted(balanced) {}

  shapes infer(const shapes& in) const override {
    if (uncounted) throw option_error("class_weights", "\"balanced\" needs the labels of a job's training data");
    want(in.size() == 2 && scores_of_labels(in[0], in[1]), "logits [N, C] and labels [N], or [N, T, C] and [N, T]", in);
    const auto classes = static_cast<std::size_t>(in[0].count() / in[1].count());
    want(weights.empty() || weights.size() == classes, "as many logits as class_weights (" + std::to_string(weights.size()) + ")",
         in);
    return {shape{}};
  }
  std::unique_ptr<plan> prepare(device& d, const shapes& in, phase ph, dtype t) const override {
    if (weights.empty()) return layer::prepare(d, in, ph, t);
    return std::make_unique<weights_on_device>(d, weights, wide_of(t));
  }
  tensor mean_weight(context& c, const tensors& in) const override {
    const auto type = wide_of(in[0].type());
    if (weights.empty()) return counted_labels(c.dev, in[1], type);
    const weights_on_device table(c.dev, weights, type);
    const auto n = in[1].count();
    tensor by_label = tensor::allocate(c.dev, shape{n, 1}, type), sum = tensor::allocate(c.dev, shape{1}, type);
    c.dev.gather_rows(table.values.reshaped(shape{table.values.count(), 1}), in[1].reshaped(shape{n}), by_label);
    c.dev.reduce_sum(1, 1, n, by_label, sum);
    return sum;
  }
  void forward(context& c, plan& p, const tensors& in, const tensors&, tensors& out, saved& s) const override {
    const tensor rows = in[0].reshaped(shape{in[1].count(), in[0].count() / in[1].count()});
    s.extra = {tensor::allocate(c.dev, rows.dims(), wide_of(rows.type())), in[1]};
    c.dev.softmax_loss(smoothing, of_plan(p), rows, in[1], s.extra[0], backed(c.dev, out[0]));
  }
  void backward(context& c, plan& p, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (wanted(grad_in, 0))
      c.dev.softmax_loss_backward(smoothing, of_plan(p), s.extra[0], s.extra[1], grad_out[0], backed(c.dev, grad_in[0]));
  }

 private:
  struct weights_on_device final : plan {
    tensor values;
    weights_on_device(device& d, const std::vector<double>& w, dtype t)
        : values(tensor::allocate(d, shape{static_cast<std::int64_t>(w.size())}, t)) {
      const std::vector<float> narrow(w.begin(), w.end());
      d.upload(t == dtype::f64 ? static_cast<const void*>(w.data()) : narrow.data(), values);
    }
  };
  tensor of_plan(const plan& p) const { return weights.empty() ? tensor() : static_cast<const weights_on_device&>(p).values; }

  double smoothing;
  std::vector<double> weights;  // by class; empty: none
  bool uncounted;               // they are "balanced", and the host of the data has not replaced the word by numbers
};

std::unique_ptr<layer> make_softmax_loss(const options& o) {
  const auto& given = o.values.at("class_weights");
  if (std::holds_alternative<std::string>(given)) return std::make_unique<softmax_loss>(o, std::vector<double>(), true);
  auto weights = std::get<std::vector<double>>(given);
  double sum = 0;
  for (const double w : weights) sum += w;
  if (!weights.empty() && !(sum > 0 && std::isfinite(sum)))
    throw option_error("class_weights", "one of class_weights must be greater than 0");
  return std::make_unique<softmax_loss>(o, std::move(weights), false);
}

option_spec class_weights_option() {
  auto s = bounded(option_of("class_weights", option_kind::reals, option_value{std::vector<double>{}},
                             "weight of each class, or \"balanced\": examples / (classes x examples of the class), counted in the "
                             "training labels; the mean of a packet is weighted; none: 1"),
                   0, 1e30);
  s.choices = {"balanced"};
  return s;
}

}  // namespace

layer_type softmax_loss_layer() {
  return {.name = "softmax_loss",
          .doc =
              "Mean over the valid labels of -log softmax(logits)[label]; a negative label is padding. logits [N, C], labels [N] "
              "i32, or logits [N, T, C], labels [N, T] -> scalar.",
          .specs = {real_option("label_smoothing", 0.0,
                                "share of the target that is spread evenly over all classes, in every phase", 0.0, 1.0),
                    class_weights_option(), mean_option()},
          .make = make_softmax_loss,
          .cases = {labelled("ten classes", {}, {{4, 10}, {4}}, 10), labelled("one example", {}, {{1, 3}, {1}}, 3),
                    labelled("one class", {}, {{3, 1}, {3}}, 1), labelled("many classes", {}, {{2, 37}, {2}}, 37),
                    labelled("trailing axes", {}, {{3, 5, 1, 1}, {3}}, 5), labelled("sequences", {}, {{3, 4, 5}, {3, 4}}, 5),
                    labelled("smoothed", {{{"label_smoothing", 0.1}}}, {{4, 37}, {4}}, 37),
                    labelled("even targets", {{{"label_smoothing", 1.0}}}, {{2, 3}, {2}}, 3),
                    labelled("smoothed sequences", {{{"label_smoothing", 0.25}}}, {{3, 4, 5}, {3, 4}}, 5),
                    labelled("weighted", {{{"class_weights", std::vector<double>{1, 0.25, 3}}}}, {{5, 3}, {5}}, 3),
                    labelled("weighted and smoothed",
                             {{{"class_weights", std::vector<double>{2, 0, 1, 0.5, 1}}, {"label_smoothing", 0.2}}},
                             {{3, 4, 5}, {3, 4}}, 5)},
          .min_inputs = 2,
          .max_inputs = 2};
}

}  // namespace troupe
