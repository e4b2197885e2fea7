// split: `copies` outputs, each sharing the memory of the input.  dx = the sum of the gradients,
// added in the order of the outputs.
//   shapes  any -> the same, `copies` times
// Several layers can also read one output without it; it exists for job files of SINGA and Caffe.
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct split final : layer {
  std::size_t copies;
  explicit split(const options& o) : copies(static_cast<std::size_t>(o.integer("copies"))) {}

  shapes infer(const shapes& in) const override {
    want(in.size() == 1, "one input", in);
    return shapes(copies, in[0]);
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, split_1, broadcast}, 1, 0, copies);
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false};
  }
  void forward(context&, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    for (auto& y : out) y = in[0];
  }
  void backward(context& c, plan&, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!wanted(grad_in, 0)) return;
    if (copies == 1) return void(grad_in[0] = grad_out[0]);
    c.dev.apply(binary::add, grad_out[0], grad_out[1], backed(c.dev, grad_in[0]));
    for (std::size_t i = 2; i < copies; ++i) c.dev.apply(binary::add, grad_in[0], grad_out[i], grad_in[0]);
  }
};

}  // namespace

layer_type split_layer() {
  const auto with = [](std::int64_t n) { return options{{{"copies", n}}}; };
  return {.name = "split",
          .doc = "`copies` outputs that share the memory of the input; dx = the sum of their gradients. Any shape.",
          .specs = {bounded(integer_option("copies", 2, "number of outputs"), 1, max_outputs)},
          .make = [](const options& o) { return std::make_unique<split>(o); },
          .cases = {example("two", {}, {{2, 3, 4}}), example("three", with(3), {{5, 2}}), example("one", with(1), {{3}}),
                    example("five of one element", with(5), {{1, 1}}), example("size-1 axes", {}, {{2, 1, 1, 3}})}};
}

}  // namespace troupe
