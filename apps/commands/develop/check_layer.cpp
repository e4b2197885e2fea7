// `troupe check-layer PLUGIN NAME`: checks a plugin's layer. Runs ops/check_layer over the layer's
// own cases and prints the failures.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "ops/check_layer.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/job/tables.hpp"
#include "runtime/node/config/plugin.hpp"

namespace troupe {
namespace {

struct check_layer_arguments {
  std::string plugin, name;
  layer_check how;
};

using findings = std::vector<std::string>;

findings of_case(const layer_type& type, const layer_case& c, device& dev, const layer_check& how, layer_coverage& seen) {
  try {
    return check_layer(type, c, dev, how, &seen);
  } catch (const std::exception& e) {
    return {std::string("exception: ") + e.what()};
  }
}

nlohmann::ordered_json coverage_json(const layer_coverage& c) {
  return {{"compared", c.compared}, {"elements", c.elements}, {"kinks", c.kinks},
          {"draws", c.draws},       {"low", c.low},           {"high", c.high}};
}

// Text output: how many elements of the gradients were compared, and for which inputs.
std::string coverage_line(const layer_coverage& c) {
  return "gradients: " + std::to_string(c.compared) + " of " + std::to_string(c.elements) + " elements compared, " +
         std::to_string(c.kinks) + " at kinks (either side is accepted), " + std::to_string(c.draws) +
         " draws of values, inputs from " + fixed_text(c.low, 1) + " to " + fixed_text(c.high, 1) + "\n";
}

// Prints one line or one event, for the registry entry itself (`of` is empty) or for one of its
// cases. Returns true if there are no findings.
bool tell(const output& out, const layer_type& type, const std::string& of, std::size_t wide, const findings& found,
          const layer_coverage& seen = {}) {
  if (out.json()) {
    nlohmann::ordered_json o{{"event", of.empty() ? "row" : "case"}, {"layer", type.name}};
    if (!of.empty()) o["case"] = of;
    o["ok"] = found.empty();
    o["findings"] = found;
    if (!of.empty()) o["coverage"] = coverage_json(seen);
    out.object(o);
  }
  const std::string what = of.empty() ? "(entry)" : of;
  std::string s = "  " + left(what, wide + 2) + (found.empty() ? "ok" : "failed") + "\n";
  for (const auto& f : found) s += "    " + f + "\n";
  out.text(s);
  return found.empty();
}

int run_check_layer(const check_layer_arguments& a, const output& out) {
  tables own;  // the plugin's entries only
  if (auto r = load_plugin(a.plugin, own); !r) return out.wrong("PLUGIN", r.error().message);
  const auto* type = own.layers.find(a.name);
  if (!type) {
    const auto names = own.layers.names();
    return out.wrong("NAME", "this plugin has no layer type " + in_quotes(a.name) + did_you_mean(a.name, names) +
                                 (names.empty() ? "; it has no layers" : " (available: " + joined(names) + ")"));
  }
  out.text(type->name + " of " + a.plugin + "\n");
  std::size_t wide = 9, wrong = 0;
  for (const auto& c : type->cases) wide = std::max(wide, c.name.size());
  const auto dev = make_cpu_device();
  const bool entry = tell(out, *type, {}, wide, check_layer_entry(*type));
  layer_coverage all;
  for (const auto& c : type->cases) {
    layer_coverage seen;
    const auto found = of_case(*type, c, *dev, a.how, seen);
    if (!tell(out, *type, c.name, wide, found, seen)) ++wrong;
    all += seen;
  }
  if (out.json())
    out.object({{"event", "done"},
                {"layer", type->name},
                {"ok", entry && wrong == 0},
                {"cases", type->cases.size()},
                {"wrong", wrong},
                {"coverage", coverage_json(all)}});
  out.text(coverage_line(all));
  out.text(type->name + ": " + std::to_string(wrong) + " of " + std::to_string(type->cases.size()) + " cases failed\n");
  return entry && wrong == 0 ? exit_done : exit_failed;
}

void add_options(CLI::App& c, check_layer_arguments& a) {
  c.add_option("PLUGIN", a.plugin, "Plugin with the layer (shared library)")->required()->option_text("FILE");
  c.add_option("NAME", a.name, "Layer type in that plugin")->required()->option_text(" ");
  c.add_option("--samples", a.how.samples, "Gradient elements to compare for each tensor and draw of values (default: 100)")
      ->option_text("N")
      ->check(CLI::Range(1, 1000000));
  c.add_option("--seed", a.how.seed, "First seed of the draws (default: 1)")->option_text("N");
  json_option(c);
}

}  // namespace

cli_command check_layer_command() {
  return make_command<check_layer_arguments>(
      "check-layer", "Check a plugin's layer on its own cases: gradients, contract, purity, f32 and bf16",
      "  troupe check-layer build/libswish.so swish\n"
      "Exit code: 0 all checks passed, 1 checks failed (all failures are printed), 2 no such layer or plugin.",
      add_options, run_check_layer);
}

}  // namespace troupe
