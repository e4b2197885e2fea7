// hard_sigmoid: y = min(max(slope x + 1/2, 0), 1).  dx = slope dy where y is between 0 and 1, 0
// otherwise.
//   shapes  any -> same.  Courbariaux et al. 2015; the slope 1/6 is that of MobileNetV3.
#include "ops/layers/activation.hpp"

namespace troupe {

layer_type hard_sigmoid_layer() {
  auto cases = activation_cases();
  cases.push_back(example("steep", options{{{"slope", 2.0}}}, {{3, 11}}));
  return {
      .name = "hard_sigmoid",
      .doc = "y = min(max(slope x + 1/2, 0), 1); dx = slope dy between 0 and 1, 0 otherwise. Any shape. Courbariaux et al. 2015.",
      .specs = {real_option("slope", 1.0 / 6, "0.2 in older Keras", 0.0)},
      .make = [](const options& o) { return std::make_unique<activation>(unary::hard_sigmoid, o.real("slope")); },
      .cases = cases};
}

}  // namespace troupe
