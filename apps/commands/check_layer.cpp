// `troupe check-layer PLUGIN NAME`: is a layer from outside right? Runs ops/check_layer over the
// layer's own cases and says what failed.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/command.hpp"
#include "ops/check_layer.hpp"
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
    return {std::string("it threw: ") + e.what()};
  }
}

nlohmann::ordered_json coverage_json(const layer_coverage& c) {
  return {{"compared", c.compared}, {"elements", c.elements}, {"kinks", c.kinks},
          {"draws", c.draws},       {"low", c.low},           {"high", c.high}};
}

// For people: how much of the gradients was compared, and where.
std::string coverage_line(const layer_coverage& c) {
  char text[200];
  std::snprintf(text, sizeof text,
                "gradients: %lld of %lld elements compared, %lld at kinks (either side is right), %d draws of values, inputs from "
                "%.1f to %.1f\n",
                static_cast<long long>(c.compared), static_cast<long long>(c.elements), static_cast<long long>(c.kinks), c.draws,
                c.low, c.high);
  return text;
}

// One line for people, or one event, for the row itself (`of` is empty) or one of its cases. True:
// nothing was found.
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
  const std::string what = of.empty() ? "(the row)" : of;
  std::string s = "  " + left(what, wide + 2) + (found.empty() ? "ok" : "wrong") + "\n";
  for (const auto& f : found) s += "    " + f + "\n";
  out.text(s);
  return found.empty();
}

int run_check_layer(const check_layer_arguments& a, const output& out) {
  tables own;  // the plugin's rows and nobody else's
  if (auto r = load_plugin(a.plugin, own); !r) return out.wrong("PLUGIN", r.error().message);
  const auto* type = own.layers.find(a.name);
  if (!type) {
    const auto names = own.layers.names();
    return out.wrong("NAME", "this plugin has no layer type " + in_quotes(a.name) + did_you_mean(a.name, names) +
                                 (names.empty() ? "; it brings no layers" : " (there is: " + joined(names) + ")"));
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
  out.text(type->name + ": " + std::to_string(wrong) + " of " + std::to_string(type->cases.size()) + " cases wrong\n");
  return entry && wrong == 0 ? exit_done : exit_failed;
}

void add_options(CLI::App& c, check_layer_arguments& a) {
  c.add_option("PLUGIN", a.plugin, "The layer's plugin, a shared library")->required()->option_text("FILE");
  c.add_option("NAME", a.name, "Layer type of that plugin")->required()->option_text(" ");
  c.add_option("--samples", a.how.samples,
               "Elements of each tensor whose gradients are compared in each draw of values (default: 100)")
      ->option_text("N")
      ->check(CLI::Range(1, 1000000));
  c.add_option("--seed", a.how.seed, "First seed of the values (default: 1)")->option_text("N");
  json_option(c);
}

}  // namespace

cli_command check_layer_command() {
  return make_command<check_layer_arguments>(
      "check-layer", "Check a plugin's layer over its own cases: gradients, contract, purity, f32 and bf16",
      "  troupe check-layer build/libswish.so swish\n"
      "Exit code 0: nothing was found; 1: it is wrong, and every finding is told; 2: there is no such layer or plugin.",
      add_options, run_check_layer);
}

}  // namespace troupe
