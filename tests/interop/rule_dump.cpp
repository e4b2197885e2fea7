// Runs every stock rule for 50 steps on generated gradients and writes one safetensors file per
// case: the first weights, the gradient and rate of each step, and the weights after every step.
// rules_torch_test.py computes the same with torch.optim.
//
// usage: rule_dump DIRECTORY
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ops/device.hpp"
#include "ops/option_specs.hpp"
#include "ops/rule.hpp"
#include "ops/schedule.hpp"
#include "runtime/record/safetensors.hpp"

namespace {

using namespace troupe;

constexpr std::int64_t steps = 50, elements = 257;  // not a multiple of a vector length

struct one_case {
  const char* name;
  const char* rule;
  double lr;
  std::vector<std::pair<std::string, option_value>> given;
};

std::vector<one_case> cases() {
  return {{"sgd", "sgd", 0.05, {}},
          {"momentum", "momentum", 0.02, {{"momentum", 0.9}}},
          {"nesterov", "nesterov", 0.02, {{"momentum", 0.8}}},
          {"adagrad", "adagrad", 0.05, {}},
          {"adagrad_decays", "adagrad", 0.1, {{"lr_decay", 0.05}, {"eps", 1e-3}, {"initial", 0.25}}},
          {"rmsprop", "rmsprop", 0.01, {}},
          {"rmsprop_char_rnn", "rmsprop", 0.002, {{"rho", 0.95}}},
          {"rmsprop_centered", "rmsprop", 0.01, {{"centered", true}, {"eps", 1e-4}}},
          {"rmsprop_heavy", "rmsprop", 0.01, {{"momentum", 0.9}, {"eps", 1e-2}}},
          {"rmsprop_both", "rmsprop", 0.01, {{"centered", true}, {"momentum", 0.5}, {"rho", 0.9}, {"eps", 1e-4}}},
          {"adadelta", "adadelta", 1.0, {}},
          {"adadelta_slow", "adadelta", 0.5, {{"rho", 0.95}, {"eps", 1e-3}}},
          {"adam", "adam", 0.001, {}},
          {"adam_other", "adam", 0.01, {{"beta1", 0.8}, {"beta2", 0.95}, {"eps", 1e-2}}},
          {"adamw", "adamw", 0.001, {}},
          {"adamw_other", "adamw", 0.01, {{"beta1", 0.8}, {"beta2", 0.95}, {"eps", 1e-2}}},
          {"adamax", "adamax", 0.002, {}},
          {"adamax_other", "adamax", 0.01, {{"beta1", 0.5}, {"beta2", 0.9}, {"eps", 1e-3}}}};
}

std::string text_of(const option_value& v) {
  if (const auto* flag = std::get_if<bool>(&v)) return *flag ? "1" : "0";
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", std::get<double>(v));
  return text;
}

// Row i of a tensor of rows with `elements` numbers.
tensor row(const tensor& t, std::int64_t i) { return t.slice(i * elements, {elements}); }

void dump(const one_case& one, dtype type, double decay, double clip, double decay_l1, device& d, const std::string& directory) {
  rule_registry rules;
  add_stock_rules(rules);
  schedule_registry schedules;
  add_stock_schedules(schedules);
  options given;
  for (const auto& [k, v] : one.given) given.values[k] = v;
  const auto* row_of_rule = rules.find(one.rule);
  const auto checked = check_options(given, row_of_rule->specs);
  const auto made = row_of_rule->make(checked);
  options every;
  every.values["every"] = std::int64_t{40};
  const auto rate = schedules.find("exponential")->make(check_options(every, schedules.find("exponential")->specs));

  auto w = tensor::allocate(d, {elements}, type);
  d.fill_gaussian({1, 2, 3}, 0.0, 1.0, w);
  auto first = tensor::allocate(d, {elements}, type);
  d.copy(w, first);
  auto gradients = tensor::allocate(d, {steps, elements}, type), after = tensor::allocate(d, {steps, elements}, type);
  auto rates = tensor::allocate(d, {steps}, dtype::f64);
  d.fill_gaussian({4, 5, 6}, 0.1, 1.0, gradients);
  tensors states;
  for (std::size_t i = 0; i < made->states().size(); ++i) {
    states.push_back(tensor::allocate(d, {elements}, type));
    d.fill(0, states.back());
  }
  for (std::int64_t t = 0; t < steps; ++t) {
    auto g = row(gradients, t);
    d.axpy(0.5, w, g);  // the gradient depends on the weights, like a loss's
    rule_step now{.lr = rate->lr(one.lr, static_cast<std::uint64_t>(t)),
                  .decay = decay,
                  .decay_l1 = decay_l1,
                  .grad_scale = 0.25,
                  .clip_value = clip};
    now.updates = static_cast<std::uint64_t>(t);
    rates.mutable_data<double>()[t] = now.lr;
    made->update(d, now, w, g, w, states, states);
    auto kept = row(after, t);
    d.copy(w, kept);
  }
  metadata_map meta{{"rule", one.rule},
                    {"decay", std::to_string(decay)},
                    {"clip", std::to_string(clip)},
                    {"grad_scale", "0.25"},
                    {"decay_l1", std::to_string(decay_l1)}};
  for (const auto& [k, v] : checked.values) meta["opt." + k] = text_of(v);
  const auto path = directory + "/" + one.name + (type == dtype::f64 ? ".f64" : ".f32") + (decay > 0 ? ".decay" : "") +
                    (clip > 0 ? ".clip" : "") + (decay_l1 > 0 ? ".l1" : "") + ".safetensors";
  const named_tensors file{{"first", first}, {"gradients", gradients}, {"rates", rates}, {"after", after}};
  if (auto ok = write_safetensors(path, file, meta); !ok) {
    std::fprintf(stderr, "%s\n", ok.error().to_string().c_str());
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: rule_dump DIRECTORY\n"), 2;
  auto d = make_cpu_device();
  for (const auto& one : cases())
    for (const dtype type : {dtype::f32, dtype::f64}) {
      dump(one, type, 0.0, 0.0, 0.0, *d, argv[1]);
      dump(one, type, 0.05, 0.0, 0.0, *d, argv[1]);
      dump(one, type, 0.05, 0.1, 0.0, *d, argv[1]);
      dump(one, type, 0.0, 0.0, 0.03, *d, argv[1]);
      dump(one, type, 0.05, 0.1, 0.03, *d, argv[1]);
    }
  rule_registry rules;
  add_stock_rules(rules);
  for (const auto& name : rules.names()) std::printf("%s\n", name.c_str());
  return 0;
}
