#include "runtime/job/convolutions.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "ops/device.hpp"

namespace troupe {
namespace {

constexpr const char* kept_key = "convolutions";

const convolving* convolution_of(const graph_layer& l) { return dynamic_cast<const convolving*>(l.maths.get()); }

const char* option_of(conv_pass p) {
  return p == conv_pass::forward ? "algorithm" : p == conv_pass::backward_data ? "algorithm_data" : "algorithm_weights";
}

bool measured(const prepared_job& j) { return j.spec.convolution == "measured"; }

// A layer whose name cannot be written in an override (runtime/node/config/document.cpp) uses the
// device's rule on all nodes.
bool can_be_overridden(const std::string& name) { return name.find_first_of("\"'=") == std::string::npos; }

std::optional<conv_algorithm> algorithm_called(const std::string& word) {
  const auto names = conv_algorithm_names();
  if (std::find(names.begin(), names.end(), word) == names.end()) return std::nullopt;
  return conv_algorithm_named(word);
}

}  // namespace

std::vector<conv_task> conv_tasks(const model_graph& g) {
  std::vector<conv_task> list;
  for (const auto& l : g.layers) {
    const auto* c = convolution_of(l);
    if (!c) continue;
    for (const auto p : conv_passes_all) {
      if (p != conv_pass::forward && !(l.in_train && l.wants_backward)) continue;
      if (p == conv_pass::backward_data && !l.grad_in_wanted[0]) continue;
      list.push_back({l.index, l.name, p, c->geometry(l.in[0])});
    }
  }
  return list;
}

std::vector<conv_task> open_conv_tasks(const prepared_job& j) {
  if (!measured(j) || j.spec.type() != dtype::f32) return {};
  auto list = conv_tasks(j.graph);
  std::erase_if(list, [](const conv_task& t) {
    return algorithm_of(t.geometry, t.pass) != conv_algorithm::automatic || !can_be_overridden(t.name);
  });
  return list;
}

conv_algorithm fastest(const conv_times& times, conv_algorithm rule) {
  constexpr double clearly = 0.97;
  const auto by_time = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto best = std::min_element(times.begin(), times.end(), by_time);
  const auto ours = times.find(rule);
  if (best == times.end()) return rule;
  return ours == times.end() || best->second < clearly * ours->second ? best->first : rule;
}

conv_table choose_convolutions(const prepared_job& j, const device& d,
                               const std::function<conv_times(const conv_geometry&, conv_pass)>& times) {
  conv_table t;
  for (const auto& task : open_conv_tasks(j)) {
    auto& mine = t.try_emplace(task.name, choice_of(task.geometry)).first->second;
    mine[task.pass] = fastest(times(task.geometry, task.pass), d.algorithm_on(task.geometry, task.pass));
  }
  return t;
}

std::string to_text(const conv_table& t) {
  std::string text;
  for (const auto& [layer, c] : t)
    text += (text.empty() ? "" : " ") + layer + "=" + name_of(c.forward) + "/" + name_of(c.backward_data) + "/" +
            name_of(c.backward_weights);
  return text;
}

std::optional<conv_table> conv_table_from(const std::string& text) {
  conv_table t;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto equals = word.rfind('=');
    if (equals == std::string::npos || equals == 0) return std::nullopt;
    std::istringstream names(word.substr(equals + 1));
    conv_choice c;
    std::string name;
    for (const auto p : conv_passes_all) {
      const auto a = std::getline(names, name, '/') ? algorithm_called(name) : std::nullopt;
      if (!a) return std::nullopt;
      c[p] = *a;
    }
    if (std::getline(names, name, '/') || !t.emplace(word.substr(0, equals), c).second) return std::nullopt;
  }
  return t;
}

std::vector<std::string> overrides_of(const conv_table& t) {
  std::vector<std::string> list;
  for (const auto& [layer, c] : t)
    for (const auto p : conv_passes_all) list.push_back("layer." + layer + "." + option_of(p) + "=\"" + name_of(c[p]) + "\"");
  return list;
}

expected<std::shared_ptr<prepared_job>, diagnostics> with_convolutions(const prepared_job& j, const conv_table& t) {
  auto spec = j.spec;
  std::set<std::string> convolutions;
  for (const auto& task : conv_tasks(j.graph)) convolutions.insert(task.name);
  for (const auto& [layer, c] : t) {
    const auto at = std::find_if(spec.layers.begin(), spec.layers.end(), [&](const layer_spec& l) { return l.name == layer; });
    if (at == spec.layers.end() || !convolutions.contains(layer))
      return unexpected(
          diagnostics{{spec.at, "algorithms are chosen for '" + layer + "', which is not a convolution of this job"}});
    for (const auto p : conv_passes_all) at->values.values.insert_or_assign(option_of(p), std::string(name_of(c[p])));
  }
  return prepare_job(std::move(spec), j.all, j.nodes, j.data);
}

metadata_map convolutions_to_keep(const prepared_job& j) {
  if (!measured(j)) return {};
  conv_table t;
  for (const auto& task : conv_tasks(j.graph)) t.emplace(task.name, choice_of(task.geometry));
  return {{kept_key, to_text(t)}};
}

std::string kept_convolutions(const metadata_map& extra) {
  const auto at = extra.find(kept_key);
  return at == extra.end() ? std::string() : at->second;
}

}  // namespace troupe
