// relu: y = x for x > 0, slope x otherwise.  dx = dy for y > 0, slope dy otherwise (slope >= 0, so
// y has the sign of x).
//   shapes  any -> same.  Nair and Hinton 2010; with a slope: Maas et al. 2013.
#include "ops/layers/activation.hpp"

namespace troupe {

layer_type relu_layer() {
  return {.name = "relu",
          .doc = "y = x for x > 0, slope x otherwise. Any shape. Nair and Hinton 2010.",
          .specs = {real_option("slope", 0.0, "slope for x < 0", 0.0)},
          .make = [](const options& o) { return std::make_unique<activation>(unary::relu, o.real("slope")); },
          .cases = {example("image", {}, {{2, 3, 4, 5}}), example("vector", {}, {{7}}),
                    example("leaky", {{{"slope", 0.1}}}, {{3, 11}}), example("one element", {}, {{1, 1}}),
                    example("longer than a register", {{{"slope", 1.5}}}, {{2, 37}}), example("size-1 axes", {}, {{3, 1, 1, 5}})}};
}

}  // namespace troupe
