// `troupe layers [NAME]`: lists the layer types, or describes one, from the layer registry.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/cli/registry.hpp"
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

// One line: "parameters: slope (decays only with decay_scale)".
std::string parameters_text(const json& list) {
  std::string s;
  for (const auto& p : list) {
    const double lr = p["lr"], decay = p["decay"];
    std::string own;
    if (lr != 1) own += ", learning rate x " + number_text(lr);
    if (decay == 0)
      own += ", decays only with decay_scale";
    else if (decay != 1)
      own += ", decay x " + number_text(decay);
    if (!p["trainable"]) own = ", a running statistic, not trained";
    s += (s.empty() ? "parameters: " : "; ") + p["name"].get<std::string>() + (own.empty() ? "" : " (" + own.substr(2) + ")");
  }
  return s.empty() ? s : page_text(s) + "\n";
}

bool is_default(const option_specs& specs, const std::string& name, const option_value& v) {
  return std::any_of(specs.begin(), specs.end(), [&](const option_spec& s) {
    return s.name == name && s.fallback && value_json(*s.fallback) == value_json(v);
  });
}

// The table of a job file that makes a layer, from the type's first case, with its shapes.
std::string example_text(const layer_type& t) {
  for (const auto& c : t.cases) {
    try {
      const auto out = t.make(check_options(c.given, t.specs))->infer(c.in);
      std::string s = "\nexample: " + shapes_text(c.in) + " -> " + shapes_text(out) + "\n  [[layer]]\n  name = \"" + t.name +
                      "1\"\n  type = " + json(t.name).dump() + "\n";
      for (const auto& [k, v] : c.given.values)
        if (!is_default(t.specs, k, v)) s += "  " + k + " = " + value_json(v).dump() + "\n";
      return s;
    } catch (const std::exception&) {
      continue;  // the layer's tests report a case that cannot be built
    }
  }
  return {};
}

int layer_page(const layer_type& t, const output& out) {
  const auto parameters = parameters_of(t);
  if (out.json()) {
    json o{
        {"event", "layer"}, {"name", t.name}, {"doc", t.doc}, {"inputs", {t.min_inputs, t.max_inputs}}, {"options", json::array()}};
    for (const auto& s : t.specs) o["options"].push_back(option_json(s));
    o["parameters"] = parameters;
    o["shapes"] = examples_of(t);
    out.object(o);
    return exit_done;
  }
  const std::string inputs = t.min_inputs == t.max_inputs ? std::to_string(t.min_inputs)
                                                          : std::to_string(t.min_inputs) + " to " + std::to_string(t.max_inputs);
  out.text(page_text(t.name + ": " + t.doc) + "\ninputs: " + inputs + "\n" + parameters_text(parameters) + "\n" +
           option_table(t.specs) + example_text(t));
  return exit_done;
}

struct layer_group {
  const char* title;
  std::vector<std::string> types;
};

// The types by purpose. A type that is in no group, e.g. of a plugin, is listed last.
const std::vector<layer_group>& layer_groups() {
  static const std::vector<layer_group> groups{
      {"with weights", {"bias", "convolution", "deconvolution", "embedding", "linear", "rbm", "scale", "sequence_convolution"}},
      {"recurrent", {"gru", "lstm", "rnn"}},
      {"activations",
       {"elu", "gelu", "hard_sigmoid", "hard_swish", "prelu", "relu", "relu6", "sigmoid", "silu", "softmax", "tanh"}},
      {"pooling and images", {"avg_pool", "crop", "max_pool", "pad", "unpool", "upsample"}},
      {"normalisation", {"batch_norm", "dropout", "group_norm", "instance_norm", "layer_norm", "lrn"}},
      {"shapes and branches", {"channel_scale", "concat", "eltwise", "flatten", "matmul", "permute", "reshape", "slice", "split"}},
      {"losses and metrics", {"accuracy", "euclidean", "hinge", "sigmoid_cross_entropy", "softmax_loss", "squared_error"}}};
  return groups;
}

// All types by purpose, a line each.
int list_layers(const layer_registry& all, const output& out) {
  std::size_t wide = 4;
  auto rest = all.names();
  for (const auto& n : rest) wide = std::max(wide, n.size());
  std::string s;
  const auto list = [&](const char* title, const std::vector<std::string>& types) {
    std::string lines;
    for (const auto& n : types) {
      const auto* t = all.find(n);
      if (!t) continue;
      lines += "  " + left(n, wide + 2) + fitted(first_line(t->doc), wide + 4) + "\n";
      std::erase(rest, n);
    }
    if (!lines.empty()) s += (s.empty() ? "" : "\n") + std::string(title) + "\n" + lines;
  };
  for (const auto& g : layer_groups()) list(g.title, g.types);
  list("other", std::vector<std::string>(rest));
  out.text(s);
  return exit_done;
}

int run_layers(const list_arguments& a, const output& out) {
  auto all = node_tables();
  if (auto r = load_plugins(a.plugins, all); !r) return out.wrong("--plugin", r.error().message);
  if (a.name.empty() && !out.json()) return list_layers(all.layers, out);
  return show(all.layers, a.name, "layer type", out, layer_page, [](const layer_type&) { return std::string(); });
}

void add_layer_options(CLI::App& c, list_arguments& a) { list_options(c, a, "Layer type to describe"); }

}  // namespace

cli_command layers_command() {
  return make_command<list_arguments>("layers", "List the layer types, or describe one",
                                      "  troupe layers\n  troupe layers convolution", add_layer_options, run_layers);
}

}  // namespace troupe
