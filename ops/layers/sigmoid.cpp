// sigmoid: y = 1 / (1 + exp(-x)).  dx = dy y (1 - y).
//   shapes  any -> same.  Rumelhart, Hinton and Williams 1986, eq. 2.
#include "ops/layers/activation.hpp"

namespace troupe {

layer_type sigmoid_layer() {
  return {.name = "sigmoid",
          .doc = "y = 1 / (1 + exp(-x)), dx = dy y (1 - y). Any shape. Rumelhart, Hinton and Williams 1986.",
          .specs = {},
          .make = [](const options&) { return std::make_unique<activation>(unary::sigmoid); },
          .cases = activation_cases()};
}

}  // namespace troupe
