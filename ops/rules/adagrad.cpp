// Adagrad as in torch.optim.Adagrad; n counts the updates from 1, and d = g + decay w:
//   sum' = sum + d^2,  w' = w - lr / (1 + (n - 1) lr_decay) d / (sqrt(initial + sum') + eps)
// States start at zero, so torch's initial_accumulator_value is a separate addend here. Duchi,
// Hazan, Singer 2011. With one state per shard it is the rule of Downpour (Dean et al. 2012).
#include "ops/option_specs.hpp"
#include "ops/rules/rules.hpp"

namespace troupe {

rule_type adagrad_type() {
  return {.name = "adagrad",
          .doc = "sum' = sum + d^2, d = g + decay w; w' = w - lr d / (sqrt(initial + sum') + eps). Duchi et al. 2011",
          .specs = {eps_option(1e-10), real_option("lr_decay", 0.0, "decay of the rate: lr / (1 + lr_decay updates)", 0.0),
                    real_option("initial", 0.0, "initial value of the sum", 0.0)},
          .make = [](const options& o) {
            return adaptive({.rule = adaptive_rule::adagrad, .eps = o.real("eps"), .first = o.real("initial")}, {"sum"},
                            [lr_decay = o.real("lr_decay")](const rule_step& now, adaptive_spec& s) {
                              s.lr = now.lr / (1.0 + static_cast<double>(now.updates) * lr_decay);
                            });
          }};
}

}  // namespace troupe
