// The registry of stock update rules, and their shared parts.
#include "ops/rule.hpp"

#include <cmath>
#include <limits>

#include "ops/device.hpp"
#include "ops/option_specs.hpp"
#include "ops/rules/rules.hpp"

namespace troupe {

// The stock rules. NAME_type() is defined in a file of ops/rules.
// clang-format off
#define TROUPE_STOCK_RULES(RULE) \
  RULE(sgd) \
  RULE(momentum) \
  RULE(nesterov) \
  RULE(adagrad) \
  RULE(rmsprop) \
  RULE(adadelta) \
  RULE(adam) \
  RULE(adamw) \
  RULE(adamax)
// clang-format on

#define TROUPE_DECLARE(name) rule_type name##_type();
TROUPE_STOCK_RULES(TROUPE_DECLARE)
#undef TROUPE_DECLARE

namespace {

struct adaptive_update_rule final : rule {
  adaptive_spec base;
  std::vector<std::string> names;
  step_numbers numbers;
  adaptive_update_rule(adaptive_spec s, std::vector<std::string> n, step_numbers f)
      : base(s), names(std::move(n)), numbers(std::move(f)) {}

  std::vector<std::string> states() const override { return names; }
  void update(device& dev, const rule_step& now, const tensor& weight_in, const tensor& grad, tensor& weight_out,
              const tensors& states_in, tensors& states_out) const override {
    adaptive_spec s = base;
    s.lr = now.lr;
    s.gradient = counted_gradient(now);
    if (numbers) numbers(now, s);
    weight_out.back(dev);
    for (auto& t : states_out) t.back(dev);
    dev.adaptive_update(s, weight_in, grad, states_in, weight_out, states_out);
  }
};

}  // namespace

gradient_spec counted_gradient(const rule_step& now) {
  return {now.grad_scale, now.clip_value > 0 ? now.clip_value : std::numeric_limits<double>::infinity(), now.decay, now.decay_l1};
}

std::unique_ptr<rule> adaptive(adaptive_spec base, std::vector<std::string> names, step_numbers numbers) {
  return std::make_unique<adaptive_update_rule>(base, std::move(names), std::move(numbers));
}

option_spec eps_option(double fallback) {
  return real_option("eps", fallback, "small constant that avoids division by zero", 0.0, 1.0);
}

option_spec share_option(std::string name, double fallback, std::string doc) {
  return real_option(std::move(name), fallback, std::move(doc), 0.0, std::nextafter(1.0, 0.0));
}

void add_stock_rules(rule_registry& r) {
#define TROUPE_ADD(name) r.add(name##_type());
  TROUPE_STOCK_RULES(TROUPE_ADD)
#undef TROUPE_ADD
}

}  // namespace troupe
