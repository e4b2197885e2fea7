#include "ops/layers/group_norm.hpp"

namespace troupe {

layer_type group_norm_layer() {
  using i = std::int64_t;
  const auto with = [](i groups, bool affine = true, double epsilon = 0.1) {
    return options{{{"groups", groups}, {"affine", affine}, {"epsilon", epsilon}}};
  };
  return {
      .name = "group_norm",
      .doc =
          "y = weight (x - mean) / sqrt(var + epsilon) + bias, with mean and variance of each example over the channels of a "
          "group and their pixels. [N, C, ...] -> same; weight, bias [C]. With g = dy weight: dx = r (g - mean of g - xhat mean "
          "of (g xhat)). Wu and He 2018.",
      .specs = {required_integer("groups", "number of groups; divides the number of channels"),
                real_option("epsilon", 1e-5, "added to the variance", 1e-30), flag_option("affine", true, "learn weight and bias")},
      .make = [](const options& o) { return std::make_unique<group_norm>(o.integer("groups"), o); },
      .cases = {example("image", with(2), {{2, 6, 4, 5}}), example("one group", with(1), {{3, 4, 3, 3}}),
                example("a group per channel", with(3), {{2, 3, 4, 5}}), example("not affine", with(2, false), {{2, 4, 3, 5}}),
                example("rows", with(3), {{4, 18}}), example("sequence", with(2, true, 0.01), {{2, 4, 9}}),
                example("one example", with(1), {{1, 2, 1, 1}})}};
}

}  // namespace troupe
