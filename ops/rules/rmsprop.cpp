// RMSProp as in torch.optim.RMSprop, with d = g + decay w:
//   square' = rho square + (1 - rho) d^2,  u = d / (sqrt(square') + eps),  w' = w - lr u
//   centered: mean' = rho mean + (1 - rho) d, with square' - mean'^2 under the root (Graves 2013)
//   momentum: v' = momentum v + u,  w' = w - lr v'
// Tieleman and Hinton 2012, lecture 6e.
#include "ops/option_specs.hpp"
#include "ops/rules/rules.hpp"

namespace troupe {

rule_type rmsprop_type() {
  return {.name = "rmsprop",
          .doc =
              "square' = rho square + (1 - rho) d^2, d = g + decay w; w' = w - lr d / (sqrt(square') + eps). Tieleman and "
              "Hinton 2012",
          .specs = {share_option("rho", 0.99, "decay rate of the mean square"), eps_option(1e-8),
                    real_option("momentum", 0.0, "momentum coefficient: fraction of the velocity kept per step", 0.0, 1.0),
                    flag_option("centered", false, "divide by the standard deviation instead of the root mean square")},
          .make = [](const options& o) {
            const bool centered = o.flag("centered");
            std::vector<std::string> states{"square"};
            if (centered) states.emplace_back("mean");
            if (o.real("momentum") != 0.0) states.emplace_back("momentum");
            return adaptive({.rule = adaptive_rule::rmsprop,
                             .eps = o.real("eps"),
                             .keep_2 = o.real("rho"),
                             .momentum = o.real("momentum"),
                             .centered = centered},
                            std::move(states));
          }};
}

}  // namespace troupe
