// silu (swish): y = x s(x), s(x) = 1 / (1 + exp(-x)).  dx = dy s (1 + x (1 - s)).
//   shapes  any -> same.  Elfwing et al. 2018; Ramachandran et al. 2017 with beta = 1.
#include "ops/layers/activation.hpp"

namespace troupe {

layer_type silu_layer() {
  auto cases = activation_cases();
  return {.name = "silu",
          .doc =
              "y = x / (1 + exp(-x)), also called swish; dx = dy s (1 + x (1 - s)), s the sigmoid of x. Any shape. Elfwing et al. "
              "2018.",
          .specs = {},
          .make = [](const options&) { return std::make_unique<activation>(unary::silu); },
          .cases = cases};
}

}  // namespace troupe
