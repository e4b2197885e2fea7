// hard_swish: y = x h(x), h(x) = min(max(x / 6 + 1/2, 0), 1).  dx = 0 for x <= -3, dy (x / 3 + 1/2)
// up to 3, dy beyond.
//   shapes  any -> same.  Howard et al. 2019 (MobileNetV3).
#include "ops/layers/activation.hpp"

namespace troupe {

layer_type hard_swish_layer() {
  auto cases = activation_cases();
  return {
      .name = "hard_swish",
      .doc =
          "y = x min(max(x / 6 + 1/2, 0), 1); dx = 0 up to -3, dy (x / 3 + 1/2) up to 3, dy beyond. Any shape. Howard et al. 2019.",
      .specs = {},
      .make = [](const options&) { return std::make_unique<activation>(unary::hard_swish); },
      .cases = cases};
}

}  // namespace troupe
