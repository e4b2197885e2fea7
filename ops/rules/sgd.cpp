// The rules of torch.optim.SGD (dampening 0), with d = g + decay w:
//   sgd       w' = w - lr d
//   momentum  v' = momentum v + d,  w' = w - lr v'
//   nesterov  v' = momentum v + d,  w' = w - lr (d + momentum v')
// Sutskever et al. 2013 and Caffe put lr inside the velocity; both forms agree for a constant lr.
#include "ops/device.hpp"
#include "ops/option_specs.hpp"
#include "ops/rules/rules.hpp"

namespace troupe {

namespace {

struct sgd_rule final : rule {
  sgd_spec base;
  explicit sgd_rule(sgd_spec s) : base(s) {}

  std::vector<std::string> states() const override {
    return base.momentum != 0.0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
  }
  void update(device& dev, const rule_step& now, const tensor& weight_in, const tensor& grad, tensor& weight_out,
              const tensors& states_in, tensors& states_out) const override {
    sgd_spec s = base;
    s.lr = now.lr;
    s.gradient = counted_gradient(now);
    weight_out.back(dev);
    tensor none;
    if (base.momentum == 0.0) return dev.sgd_update(s, weight_in, grad, none, weight_out, none);
    states_out[0].back(dev);
    dev.sgd_update(s, weight_in, grad, states_in[0], weight_out, states_out[0]);
  }
};

rule_type with_velocity(const char* name, const char* doc, bool nesterov) {
  return {.name = name,
          .doc = doc,
          .specs = {real_option("momentum", 0.9, "momentum coefficient: fraction of the velocity kept per step", 0.0, 1.0)},
          .make = [nesterov](const options& o) {
            return std::make_unique<sgd_rule>(sgd_spec{.momentum = o.real("momentum"), .nesterov = nesterov});
          }};
}

}  // namespace

rule_type sgd_type() {
  return {.name = "sgd", .doc = "w' = w - lr (g + decay w)", .specs = {}, .make = [](const options&) {
            return std::make_unique<sgd_rule>(sgd_spec{});
          }};
}
rule_type momentum_type() { return with_velocity("momentum", "v' = momentum v + g + decay w; w' = w - lr v'", false); }
rule_type nesterov_type() {
  return with_velocity("nesterov", "d = g + decay w; v' = momentum v + d; w' = w - lr (d + momentum v')", true);
}

}  // namespace troupe
