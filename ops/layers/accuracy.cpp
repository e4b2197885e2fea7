// accuracy: the fraction of valid labels that are among the top_k largest scores. A negative label
// is padding; a label beyond the scores counts as wrong.
//   shapes  scores [N, C], labels [N] i32, or scores [N, T, C], labels [N, T] -> scalar
// A metric: no gradient.
#include "ops/layers/loss.hpp"

namespace troupe {

namespace {

struct accuracy final : layer {
  std::int64_t top_k;
  explicit accuracy(const options& o) : top_k(o.integer("top_k")) {}

  shapes infer(const shapes& in) const override {
    want(in.size() == 2 && scores_of_labels(in[0], in[1]), "scores [N, C] and labels [N], or [N, T, C] and [N, T]", in);
    want(top_k <= in[0].count_from(in[1].rank()), "at least top_k = " + std::to_string(top_k) + " classes", in);
    return {shape{}};
  }
  signatures supported() const override {
    using enum distribution;
    return {{{split_0, split_0}, {}, {partial}}, {{broadcast, broadcast}, {}, {broadcast}}};
  }
  bool is_metric() const override { return true; }
  bool test_phase_only() const override { return true; }
  bool differentiable(std::size_t) const override { return false; }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false};
  }
  tensor mean_weight(context& c, const tensors& in) const override { return counted_labels(c.dev, in[1], wide_of(in[0].type())); }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    const auto labels = in[1].count();
    c.dev.top_k(top_k, in[0].reshaped(shape{labels, in[0].count() / labels}), in[1], backed(c.dev, out[0]));
  }
  void backward(context&, plan&, const saved&, const tensors&, const tensors&, tensors&, tensors&, bool) const override {}
};

}  // namespace

layer_type accuracy_layer() {
  using i = std::int64_t;
  return {.name = "accuracy",
          .doc =
              "Fraction of valid labels that are among the top_k largest scores; a negative label is padding. scores [N, C], "
              "labels [N] i32, or scores [N, T, C], labels [N, T] -> scalar. A metric of the test phase.",
          .specs = {integer_option("top_k", 1, "number of largest scores that are compared with the label", 1)},
          .make = [](const options& o) { return std::make_unique<accuracy>(o); },
          .cases = {labelled("ten classes", {}, {{8, 10}, {8}}, 10), labelled("top 5", {{{"top_k", i{5}}}}, {{4, 9}, {4}}, 9),
                    labelled("one example", {}, {{1, 2}, {1}}, 2), labelled("all classes", {{{"top_k", i{3}}}}, {{5, 3}, {5}}, 3),
                    labelled("one class", {}, {{3, 1}, {3}}, 1), labelled("sequences", {}, {{3, 4, 5}, {3, 4}}, 5)},
          .min_inputs = 2,
          .max_inputs = 2};
}

}  // namespace troupe
