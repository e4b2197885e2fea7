#include "runtime/model/edge_types.hpp"

#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

constexpr tensor_ref of_data{from_data, 0}, of_label{from_data, 1};

bool carries_ids(const model_graph& g, tensor_ref r, dtype activations) { return g.type_of(r, activations) == dtype::i32; }

// Number of ids that `l` can look up by its input k; 0: the input is not an index.
std::int64_t places(const graph_layer& l, std::size_t k) {
  return l.maths->holds(k, l.in) == holding::values ? 0 : l.maths->ids_below(k, l.in);
}

}  // namespace

namespace {

// What to change in [data] if labels are classes where targets are needed, or vice versa.
std::string label_hint(const job_spec& job, bool are_classes) {
  const auto& o = job.data.values;
  if (o.has("label_kind"))
    return are_classes ? ": label_kind = \"values\" makes targets of them"
                       : ": label_kind = \"classes\" makes class numbers of them";
  if (o.has("targets"))
    return are_classes ? ": name the column in targets, not in label" : ": name the column in label, not in targets";
  return {};
}

}  // namespace

std::optional<edge_mistake> wrong_type(const model_graph& g, const graph_layer& l, const job_spec& job) {
  for (std::size_t k = 0; k < l.inputs.size(); ++k) {
    const auto from = l.inputs[k];
    const auto wanted = l.maths->holds(k, l.in);
    const bool ids = carries_ids(g, from, job.type());
    if (wanted == holding::any || (wanted == holding::ids) == ids) continue;
    const std::string values_are = std::string("values (") + name_of(job.type()) + ")", ids_are = "ids (i32)";
    auto text = "input " + std::to_string(k) + " of a " + l.type + " layer takes " + (ids ? values_are : ids_are) + ", but " +
                in_quotes(l.spec->inputs[k]) + " (" + l.in[k].to_string() + ")";
    if (from.layer == from_data) text += " of source " + in_quotes(job.data.source);
    text += " holds " + (from == of_label ? (ids ? "class numbers (i32)" : "target " + values_are) + label_hint(job, ids)
                         : ids            ? ids_are + ": insert an embedding layer between them"
                                          : values_are);
    return edge_mistake{"inputs." + std::to_string(k), text};
  }
  return std::nullopt;
}

namespace {

// How to get `wanted` scores from input `k` of a loss: the row of the layer that makes them.
std::string hint_about_scores(const model_graph& g, const graph_layer& l, std::size_t k, const std::string& wanted) {
  const std::string look = "`troupe data` shows what the data holds";
  for (auto from = l.inputs[k]; from.layer >= 0;) {
    const auto& p = g.layers[static_cast<std::size_t>(from.layer)];
    if (p.spec->values.values.contains("outputs")) {
      const auto at = position_of(p.spec->key_at, "outputs", p.spec->at);
      return "; set outputs = " + wanted + " in layer " + in_quotes(p.spec->name) + " (" + at.to_string() +
             "), or correct the data: " + look;
    }
    if (p.inputs.size() != 1) break;
    from = p.inputs[0];
  }
  return "; " + look;
}

}  // namespace

std::vector<edge_mistake> wrong_ids(const model_graph& g, const graph_layer& l) {
  std::vector<edge_mistake> found;
  for (std::size_t k = 0; k < l.inputs.size(); ++k) {
    if (l.inputs[k] != of_label && !(l.inputs[k] == of_data && g.ids)) continue;
    const bool labels = l.inputs[k] == of_label;
    const auto there_are = places(l, k), wanted_places = labels ? g.classes : g.vocabulary;
    if (there_are == 0 || there_are >= wanted_places) continue;
    const auto n = std::to_string(there_are), wanted = std::to_string(wanted_places);
    if (l.maths->is_loss() || l.maths->is_metric())
      found.push_back({"inputs.0", "its input " + in_quotes(l.spec->inputs[0]) + " (" + l.in[0].to_string() + ") has " + n +
                                       " score" + (there_are == 1 ? "" : "s") + " an example, but the data has " + wanted +
                                       (labels ? " classes" : " different ids") + hint_about_scores(g, l, 0, wanted)});
    else
      found.push_back({"vocabulary", "a vocabulary of " + n + ", but the data has " + wanted + " different ids"});
  }
  return found;
}

void bound_ids(model_graph& g) {
  for (const auto& l : g.layers)
    for (std::size_t k = 0; k < l.inputs.size(); ++k) {
      if (l.inputs[k] == of_label && places(l, k) > 0) g.label_below = g.classes;
      if (l.inputs[k] == of_data && g.ids && places(l, k) > 0) g.id_below = g.vocabulary;
    }
}

}  // namespace troupe
