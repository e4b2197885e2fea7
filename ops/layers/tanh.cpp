// tanh: y = tanh(x).  dx = dy (1 - y^2).
//   shapes  any -> same.  LeCun et al. 1998 (Efficient BackProp, 4.4), without its scale.
#include "ops/layers/activation.hpp"

namespace troupe {

layer_type tanh_layer() {
  return {.name = "tanh",
          .doc = "y = tanh(x), dx = dy (1 - y^2). Any shape. LeCun et al. 1998.",
          .specs = {},
          .make = [](const options&) { return std::make_unique<activation>(unary::tanh); },
          .cases = activation_cases()};
}

}  // namespace troupe
