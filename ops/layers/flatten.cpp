// flatten: [N, ...] -> [N, D], sharing the memory.  dx = dy in the original shape.
#include "ops/layers/view.hpp"

namespace troupe {

namespace {

struct flatten final : view_layer {
  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() >= 1, "one input [N, ...]", in);
    return {shape{in[0][0], in[0].count_from(1)}};
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, split_1, broadcast}, 1);
  }
};

}  // namespace

layer_type flatten_layer() {
  return {.name = "flatten",
          .doc = "Reshapes [N, ...] to [N, D], sharing the memory.",
          .specs = {},
          .make = [](const options&) { return std::make_unique<flatten>(); },
          .cases = {example("image", {}, {{2, 3, 4, 5}}), example("matrix", {}, {{3, 4}}), example("vector", {}, {{6}}),
                    example("one example", {}, {{1, 2, 2}}), example("size-1 axes", {}, {{2, 1, 1, 1}})}};
}

}  // namespace troupe
