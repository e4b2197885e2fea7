#include "ops/layers/group_norm.hpp"

namespace troupe {

layer_type instance_norm_layer() {
  const auto with = [](bool affine, double epsilon = 0.1) { return options{{{"affine", affine}, {"epsilon", epsilon}}}; };
  return {.name = "instance_norm",
          .doc =
              "y = weight (x - mean) / sqrt(var + epsilon) + bias, with mean and variance of each example and channel over its "
              "pixels: group_norm with a group per channel. [N, C, ...] -> same; weight, bias [C]. Ulyanov et al. 2016.",
          .specs = {real_option("epsilon", 1e-5, "added to the variance", 1e-30),
                    flag_option("affine", true, "learn weight and bias; PyTorch's default is false")},
          .make = [](const options& o) { return std::make_unique<group_norm>(0, o); },
          .cases = {example("image", with(true), {{2, 3, 4, 5}}), example("not affine", with(false), {{2, 3, 4, 5}}),
                    example("sequence", with(true), {{3, 4, 9}}), example("one channel", with(true, 0.01), {{4, 1, 3, 7}}),
                    example("one example", with(true), {{1, 2, 1, 3}})}};
}

}  // namespace troupe
