// gelu: y = x F(x), F(x) = (1 + erf(x / sqrt 2)) / 2 the normal distribution function. dx = dy
// (F(x) + x F'(x)).
//   approximate = "tanh"  y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), and its derivative
//   shapes                any -> same.  Hendrycks and Gimpel 2016.
#include "ops/layers/activation.hpp"

namespace troupe {

layer_type gelu_layer() {
  const options approximate{{{"approximate", std::string("tanh")}}};
  auto cases = activation_cases();
  cases.push_back(example("by tanh", approximate, {{3, 4, 5}}));
  cases.push_back(example("by tanh, long", approximate, {{2, 41}}));
  return {
      .name = "gelu",
      .doc =
          "y = x (1 + erf(x / sqrt 2)) / 2, or with approximate = \"tanh\" y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). "
          "Any shape. Hendrycks and Gimpel 2016.",
      .specs = {choice_option("approximate", {"none", "tanh"}, "approximation of the normal distribution function")},
      .make =
          [](const options& o) {
            return std::make_unique<activation>(o.text("approximate") == "tanh" ? unary::gelu_tanh : unary::gelu);
          },
      .cases = cases};
}

}  // namespace troupe
