// `troupe layers [NAME]`: lists the layer types, or describes one, from the layer registry.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/command.hpp"
#include "apps/troupe_registry.hpp"
#include "runtime/node/config/plugin.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

std::string given_text(const options& o) {
  std::string s;
  for (const auto& [k, v] : o.values) s += (s.empty() ? "" : ", ") + k + " = " + value_json(v).dump();
  return s.empty() ? "defaults" : s;
}

std::string shapes_text(const shapes& list) {
  std::string s;
  for (const auto& x : list) s += (s.empty() ? "" : ", ") + x.to_string();
  return s;
}

// Input and output shapes, from the type's own cases.
json examples_of(const layer_type& t) {
  auto list = json::array();
  for (const auto& c : t.cases) {
    try {
      const auto made = t.make(check_options(c.given, t.specs));
      list.push_back({{"options", given_text(c.given)}, {"in", shapes_text(c.in)}, {"out", shapes_text(made->infer(c.in))}});
    } catch (const std::exception&) {
      continue;  // the layer's tests report a case that cannot be built
    }
  }
  return list;
}

// The parameters of the type's first case that has any, with the layer's default multipliers.
json parameters_of(const layer_type& t) {
  auto list = json::array();
  for (const auto& c : t.cases) {
    try {
      for (const auto& p : t.make(check_options(c.given, t.specs))->params(c.in))
        list.push_back({{"name", p.name}, {"lr", p.lr_multiplier}, {"decay", p.decay_multiplier}, {"trainable", p.trainable}});
    } catch (const std::exception&) {
      continue;
    }
    if (!list.empty()) break;
  }
  return list;
}

std::string parameters_text(const json& list) {
  std::size_t wide = 0;
  for (const auto& p : list) wide = std::max(wide, p["name"].get<std::string>().size());
  std::string s = list.empty() ? "" : "\nparameters:\n";
  for (const auto& p : list) {
    const double lr = p["lr"], decay = p["decay"];
    std::string own;
    if (lr != 1) own += ", learning rate x " + number_text(lr);
    if (decay == 0)
      own += ", decays only with decay_scale";
    else if (decay != 1)
      own += ", decay x " + number_text(decay);
    if (!p["trainable"]) own = ", a running statistic, not trained";
    s += "  " + left(p["name"].get<std::string>(), wide + 2) + (own.empty() ? "" : own.substr(2)) + "\n";
  }
  return without_trailing_blanks(s);
}

int layer_page(const layer_type& t, const output& out) {
  const auto examples = examples_of(t);
  const auto parameters = parameters_of(t);
  if (out.json()) {
    json o{
        {"event", "layer"}, {"name", t.name}, {"doc", t.doc}, {"inputs", {t.min_inputs, t.max_inputs}}, {"options", json::array()}};
    for (const auto& s : t.specs) o["options"].push_back(option_json(s));
    o["parameters"] = parameters;
    o["shapes"] = examples;
    out.object(o);
    return exit_done;
  }
  std::string inputs = t.min_inputs == t.max_inputs ? std::to_string(t.min_inputs)
                                                    : std::to_string(t.min_inputs) + " to " + std::to_string(t.max_inputs);
  std::string s =
      t.name + "\n\n" + wrapped(t.doc) + "\n\ninputs: " + inputs + "\n\n" + option_table(t.specs) + parameters_text(parameters);
  if (!examples.empty()) s += "\nexample shapes:\n";
  for (const auto& e : examples)
    s += "  " + e["in"].get<std::string>() + "  ->  " + e["out"].get<std::string>() + "   (" + e["options"].get<std::string>() +
         ")\n";
  out.text(s);
  return exit_done;
}

int run_layers(const list_arguments& a, const output& out) {
  auto all = node_tables();
  if (auto r = load_plugins(a.plugins, all); !r) return out.wrong("--plugin", r.error().message);
  return show(all.layers, a.name, "layer type", out, layer_page, [](const layer_type&) { return std::string(); });
}

void add_layer_options(CLI::App& c, list_arguments& a) { list_options(c, a, "Layer type to describe"); }

}  // namespace

cli_command layers_command() {
  return make_command<list_arguments>("layers", "List the layer types, or describe one",
                                      "  troupe layers\n  troupe layers convolution", add_layer_options, run_layers);
}

}  // namespace troupe
