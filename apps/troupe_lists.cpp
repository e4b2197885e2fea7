// `troupe layers [NAME]` and `troupe modes [NAME]`: what exists, from the tables themselves, so that it cannot be out of date.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/troupe_commands.hpp"
#include "runtime/graph/wording.hpp"
#include "runtime/node/config/plugin.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

const char* kind_name(option_kind k) {
  switch (k) {
    case option_kind::boolean: return "true/false";
    case option_kind::integer: return "integer";
    case option_kind::real: return "number";
    case option_kind::text: return "text";
    case option_kind::integers: return "integers";
    case option_kind::reals: return "numbers";
    case option_kind::texts: return "texts";
    case option_kind::table: return "table";
  }
  return "?";
}

json value_json(const option_value& v) {
  return std::visit(
      [](const auto& x) -> json {
        if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::shared_ptr<options>>) {
          json o = json::object();
          if (x)
            for (const auto& [k, inner] : x->values) o[k] = value_json(inner);
          return o;
        } else {
          return x;
        }
      },
      v);
}

json option_json(const option_spec& s) {
  json o{{"name", s.name}, {"kind", kind_name(s.kind)}, {"required", !s.fallback}};
  if (s.fallback) o["default"] = value_json(*s.fallback);
  if (!s.choices.empty()) o["choices"] = s.choices;
  if (s.min > -1e299) o["min"] = s.min;
  if (s.max < 1e299) o["max"] = s.max;
  o["doc"] = s.doc;
  return o;
}

std::string number_text(double x) {
  return json(x == static_cast<double>(static_cast<std::int64_t>(x)) ? json(static_cast<std::int64_t>(x)) : json(x)).dump();
}

std::string range_text(const option_spec& s) {
  const bool number = s.kind == option_kind::integer || s.kind == option_kind::real;
  if (!s.choices.empty() && !number) return joined(s.choices, " | ");
  const bool low = s.min > -1e299, high = s.max < 1e8;  // beyond that nobody means it
  std::string text;
  if (low && high)
    text = number_text(s.min) + " to " + number_text(s.max);
  else if (low)
    text = "at least " + number_text(s.min);
  else if (high)
    text = "at most " + number_text(s.max);
  for (const auto& word : s.choices) text += (text.empty() ? "" : ", or ") + json(word).dump();  // words allowed beside numbers
  return text;
}

// Lines of at most 100 characters, as the terminals that people have.
std::string wrapped(const std::string& text) {
  std::string s;
  std::size_t used = 0, at = 0;
  while (at < text.size()) {
    const auto end = std::min(text.find_first_of(" \n", at), text.size());
    const auto word = end - at;
    if (used > 0 && used + 1 + word > 100) s += "\n", used = 0;
    if (used > 0) s += " ", ++used;
    s += text.substr(at, word);
    used += word;
    if (end < text.size() && text[end] == '\n') s += "\n", used = 0;
    at = end + 1;
  }
  return s;
}

std::string without_trailing_blanks(const std::string& text) {
  std::string s;
  for (const char c : text) {
    if (c == '\n')
      while (!s.empty() && s.back() == ' ') s.pop_back();
    s += c;
  }
  return s;
}

std::string option_table(const option_specs& specs) {
  if (specs.empty()) return "  (no options of its own)\n";
  std::size_t name = 6, fallback = 7, range = 5;
  const auto fallback_of = [](const option_spec& s) {
    return s.fallback ? value_json(*s.fallback).dump() : std::string("required");
  };
  for (const auto& s : specs) {
    name = std::max(name, s.name.size());
    fallback = std::max(fallback, fallback_of(s).size());
    range = std::max(range, range_text(s).size());
  }
  std::string t =
      "  " + left("option", name + 2) + left("kind", 12) + left("default", fallback + 2) + left("range", range + 2) + "\n";
  for (const auto& s : specs)
    t += "  " + left(s.name, name + 2) + left(kind_name(s.kind), 12) + left(fallback_of(s), fallback + 2) +
         left(range_text(s), range + 2) + s.doc + "\n";
  return without_trailing_blanks(t);
}

std::string first_line(const std::string& doc) { return doc.substr(0, std::min(doc.find('\n'), doc.find(". "))); }

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

// What comes out for what goes in, as the type's own cases show it.
json examples_of(const layer_type& t) {
  auto list = json::array();
  for (const auto& c : t.cases) {
    try {
      const auto made = t.make(check_options(c.given, t.specs));
      list.push_back({{"options", given_text(c.given)}, {"in", shapes_text(c.in)}, {"out", shapes_text(made->infer(c.in))}});
    } catch (const std::exception&) {
      continue;  // a case that does not build is the layer's test's business
    }
  }
  return list;
}

// The parameters that its first case with any has, and the multipliers that are the layer's own.
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
    if (lr != 1) own += ", rate x " + number_text(lr);
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
  if (!examples.empty()) s += "\nshapes, for example:\n";
  for (const auto& e : examples)
    s += "  " + e["in"].get<std::string>() + "  ->  " + e["out"].get<std::string>() + "   (" + e["options"].get<std::string>() +
         ")\n";
  out.text(s);
  return exit_done;
}

// What one has to know of a mode beside its options, as sentences.
std::string mode_facts_text(const sync_mode& m) {
  std::string s = m.lockstep ? "All workers take the same step; evaluation is spread over them.\n"
                             : "Every worker goes by its own progress; a tester evaluates beside training.\n";
  if (m.portions) s += "Packets are dealt to workers while the step runs.\n";
  s += m.by_groups ? "Independent trainers are worker groups: [topology] worker_groups.\n"
                   : "Workers are counted one by one: [topology] workers_per_group.\n";
  if (m.takes_when) s += "Takes a sync condition: when = { kind = ... } in [train.sync].\n";
  if (!m.clips_by_norm) s += "Cannot clip gradients by their norm over all parameters.\n";
  if (m.places) s += "Takes layers that are placed apart from the workers or split by feature.\n";
  return s;
}

int mode_page(const sync_mode& m, const output& out) {
  if (out.json()) {
    json o{{"event", "mode"}, {"name", m.name}, {"doc", m.doc}, {"options", json::array()}};
    for (const auto& s : m.specs) o["options"].push_back(option_json(s));
    o["lockstep"] = m.lockstep;
    o["portions"] = m.portions;
    o["by_groups"] = m.by_groups;
    o["takes_when"] = m.takes_when;
    o["clips_by_norm"] = m.clips_by_norm;
    o["places"] = m.places;
    out.object(o);
    return exit_done;
  }
  out.text(m.name + "\n\n" + wrapped(m.doc) + "\n\n" + mode_facts_text(m) + "\n" + option_table(m.specs));
  return exit_done;
}

// In the list of all modes: what its table in a job file looks like with nothing chosen.
std::string mode_line(const sync_mode& m) {
  std::string s = "sync = { mode = " + json(m.name).dump();
  for (const auto& o : m.specs) s += ", " + o.name + " = " + (o.fallback ? value_json(*o.fallback).dump() : "...");
  return s + " }";
}

// One row of a registry by name, or the list of all.
template <class Registry, class Page>
int show(const Registry& rows, const std::string& name, const char* what, const output& out, Page&& page) {
  const auto names = rows.names();
  if (!name.empty()) {
    if (const auto* row = rows.find(name)) return page(*row, out);
    return out.wrong("command line", std::string("there is no ") + what + " " + in_quotes(name) + did_you_mean(name, names) +
                                         " (there is: " + joined(names) + ")");
  }
  std::size_t wide = 4;
  for (const auto& n : names) wide = std::max(wide, n.size());
  for (const auto& n : names) {
    if (out.json())
      page(*rows.find(n), out);
    else
      out.text(left(n, wide + 2) + first_line(rows.find(n)->doc) + "\n");
    if constexpr (requires { rows.find(n)->lockstep; }) out.text(std::string(wide + 2, ' ') + mode_line(*rows.find(n)) + "\n");
  }
  return exit_done;
}

}  // namespace

int run_layers(const list_arguments& a, const output& out) {
  auto all = node_tables();
  if (auto r = load_plugins(a.plugins, all); !r) return out.wrong("--plugin", r.error().message);
  return show(all.layers, a.name, "layer type", out, layer_page);
}

int run_modes(const list_arguments& a, const output& out) {
  auto all = node_tables();
  if (auto r = load_plugins(a.plugins, all); !r) return out.wrong("--plugin", r.error().message);
  return show(all.modes, a.name, "mode", out, mode_page);
}

}  // namespace troupe
