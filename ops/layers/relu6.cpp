// relu6: y = min(max(x, 0), max).  dx = dy for 0 < x < max, 0 otherwise.
//   shapes  any -> same.  Krizhevsky 2010; the bound of MobileNets.
#include "ops/layers/activation.hpp"

namespace troupe {

layer_type relu6_layer() {
  auto cases = activation_cases();
  cases.push_back(example("bounded within the values", options{{{"max", 0.5}}}, {{3, 11}}));
  cases.push_back(example("max 0 is zero", options{{{"max", 0.0}}}, {{2, 5}}));
  return {.name = "relu6",
          .doc = "y = min(max(x, 0), max); dx = dy for 0 < x < max, 0 otherwise. Any shape. Krizhevsky 2010.",
          .specs = {real_option("max", 6.0, "largest output", 0.0)},
          .make = [](const options& o) { return std::make_unique<activation>(unary::relu6, o.real("max")); },
          .cases = cases};
}

}  // namespace troupe
