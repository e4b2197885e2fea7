// hinge: loss = 1 / N sum over examples and classes of h or (norm = "l2") h^2, h = max(0, 1 + s x),
// s = -1 for the example's class and +1 for the others. With a single score per example: s = -1 for
// label > 0.
//   shapes    scores [N, ...] of C classes, labels [N] i32 -> scalar; a negative label is padding
//             and not counted in N
//   gradient  dx = dloss s [h > 0] / N, or dloss 2 s h / N
// Caffe's hinge loss (one against all); Tang 2013.
#include "ops/layers/element_loss.hpp"

namespace troupe {

namespace {

struct hinge final : element_loss {
  explicit hinge(const options& o)
      : element_loss(o.text("norm") == "l2" ? pointwise::hinge_2 : pointwise::hinge_1, o.text("mean") == "batch") {}
  shapes infer(const shapes& in) const override {
    want(in.size() == 2 && in[0].rank() >= 2 && in[1].rank() == 1 && in[0][0] == in[1][0], "scores [N, C] and labels [N]", in);
    return {shape{}};
  }
};

}  // namespace

layer_type hinge_layer() {
  const options l2{{{"norm", std::string("l2")}}};
  return {.name = "hinge",
          .doc =
              "1 / N sum over examples and classes of h, or h^2 with norm = \"l2\"; h = max(0, 1 + s x), s = -1 for the example's "
              "class, +1 for the others. scores [N, C], labels [N] i32 -> scalar. dx = dloss s [h > 0] / N, or dloss 2 s h / N. "
              "Tang 2013.",
          .specs = {choice_option("norm", {"l1", "l2"}, "norm of the margin violations"), mean_option()},
          .make = [](const options& o) { return std::make_unique<hinge>(o); },
          .cases = {labelled("ten classes", {}, {{4, 10}, {4}}, 10), labelled("squared", l2, {{4, 10}, {4}}, 10),
                    labelled("yes or no", {}, {{6, 1}, {6}}, 2), labelled("many classes", l2, {{2, 37}, {2}}, 37),
                    labelled("trailing axes", {}, {{3, 5, 1, 1}, {3}}, 5), labelled("one example", l2, {{1, 1}, {1}}, 2)},
          .min_inputs = 2,
          .max_inputs = 2};
}

}  // namespace troupe
