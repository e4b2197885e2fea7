// elu: y = x for x > 0, alpha (exp(x) - 1) otherwise.  dx = dy for y > 0, dy (y + alpha) otherwise
// (alpha >= 0, so y has the sign of x).
//   shapes  any -> same.  Clevert, Unterthiner and Hochreiter 2016, eq. 15.
#include "ops/layers/activation.hpp"

namespace troupe {

layer_type elu_layer() {
  auto cases = activation_cases();
  cases.push_back(example("half", options{{{"alpha", 0.5}}}, {{3, 11}}));
  cases.push_back(example("alpha 0 is relu", options{{{"alpha", 0.0}}}, {{2, 5}}));
  return {.name = "elu",
          .doc = "y = x for x > 0, alpha (exp(x) - 1) otherwise; dx = dy, or dy (y + alpha). Any shape. Clevert et al. 2016.",
          .specs = {real_option("alpha", 1.0, "y approaches -alpha for very negative x", 0.0)},
          .make = [](const options& o) { return std::make_unique<activation>(unary::elu, o.real("alpha")); },
          .cases = cases};
}

}  // namespace troupe
