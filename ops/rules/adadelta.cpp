// Adadelta as in torch.optim.Adadelta, with d = g + decay w:
//   square' = rho square + (1 - rho) d^2,  u = sqrt(moved + eps) / sqrt(square' + eps) d,
//   moved' = rho moved + (1 - rho) u^2,    w' = w - lr u
// The paper has lr = 1. Zeiler 2012, algorithm 1.
#include "ops/option_specs.hpp"
#include "ops/rules/rules.hpp"

namespace troupe {

rule_type adadelta_type() {
  return {.name = "adadelta",
          .doc = "u = sqrt(moved + eps) / sqrt(square' + eps) d, d = g + decay w; w' = w - lr u; the paper has lr = 1. Zeiler 2012",
          .specs = {share_option("rho", 0.9, "decay rate of the mean squares `square` and `moved`"), eps_option(1e-6)},
          .make = [](const options& o) {
            return adaptive({.rule = adaptive_rule::adadelta, .eps = o.real("eps"), .keep_2 = o.real("rho")}, {"square", "moved"});
          }};
}

}  // namespace troupe
