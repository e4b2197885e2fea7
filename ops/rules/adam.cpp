// Adam, AdamW and Adamax as in torch.optim; n counts the updates from 1, and d = g + decay w:
//   adam    m' = beta1 m + (1 - beta1) d,  s' = beta2 s + (1 - beta2) d^2,
//           w' = w - lr / (1 - beta1^n) m' / (sqrt(s') / sqrt(1 - beta2^n) + eps)
//   adamw   d = g; m' and s' as above,
//           w' = (1 - lr decay) w - lr / (1 - beta1^n) m' / (sqrt(s') / sqrt(1 - beta2^n) + eps)
//   adamax  m' as above,  u' = max(beta2 u, |d| + eps),  w' = w - lr / (1 - beta1^n) m' / u'
// Kingma and Ba 2015, algorithms 1 and 2; AdamW: Loshchilov and Hutter 2019, algorithm 2, whose
// decay is multiplied by lr, as in torch.
#include <cmath>

#include "ops/option_specs.hpp"
#include "ops/rules/rules.hpp"

namespace troupe {

namespace {

double correction(double keep, std::uint64_t updates) { return 1.0 - std::pow(keep, static_cast<double>(updates + 1)); }

// The options of all three rules: beta1, beta2, eps.
option_specs moments_options() {
  return {share_option("beta1", 0.9, "decay rate of the first moment"),
          share_option("beta2", 0.999, "decay rate of the second moment"), eps_option(1e-8)};
}
adaptive_spec moments_of(const options& o, adaptive_rule r) {
  return {.rule = r, .eps = o.real("eps"), .keep_1 = o.real("beta1"), .keep_2 = o.real("beta2")};
}
// The bias corrections of both moments.
void adam_factors(const adaptive_spec& base, const rule_step& now, adaptive_spec& s) {
  s.lr = now.lr / correction(base.keep_1, now.updates);
  s.deviation = std::sqrt(correction(base.keep_2, now.updates));
}

}  // namespace

rule_type adam_type() {
  return {
      .name = "adam",
      .doc =
          "bias-corrected mean and mean square of d = g + decay w; w' = w - lr mean / (sqrt(square) + eps). Kingma and "
          "Ba 2015",
      .specs = moments_options(),
      .make = [](const options& o) {
        const auto base = moments_of(o, adaptive_rule::adam);
        return adaptive(base, {"mean", "square"}, [base](const rule_step& now, adaptive_spec& s) { adam_factors(base, now, s); });
      }};
}

rule_type adamw_type() {
  return {.name = "adamw",
          .doc =
              "Adam with decoupled decay: mean and mean square of g alone; w' = (1 - lr decay) w - lr mean / (sqrt(square) + eps). "
              "Loshchilov and Hutter 2019",
          .specs = moments_options(),
          .make = [](const options& o) {
            const auto base = moments_of(o, adaptive_rule::adam);
            return adaptive(base, {"mean", "square"}, [base](const rule_step& now, adaptive_spec& s) {
              adam_factors(base, now, s);
              s.gradient.decay = 0;
              s.keep_weight = 1.0 - now.lr * now.decay;
            });
          }};
}

rule_type adamax_type() {
  return {.name = "adamax",
          .doc = "Adam with the infinity norm: w' = w - lr mean / max(beta2 norm, |d| + eps). Kingma and Ba 2015",
          .specs = moments_options(),
          .make = [](const options& o) {
            const auto base = moments_of(o, adaptive_rule::adamax);
            return adaptive(base, {"mean", "norm"}, [base](const rule_step& now, adaptive_spec& s) {
              s.lr = now.lr / correction(base.keep_1, now.updates);
            });
          }};
}

}  // namespace troupe
