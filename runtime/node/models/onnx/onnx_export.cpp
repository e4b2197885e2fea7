#include "runtime/node/models/onnx/onnx_export.hpp"

#include "runtime/base/wording.hpp"
#include "runtime/model/share.hpp"
#include "runtime/node/models/onnx/layer_writer.hpp"
#include "runtime/plain/prediction.hpp"

namespace troupe::onnx {
namespace {

constexpr const char* data_name = "data";
constexpr const char* scores_name = "scores";

// The inputs whose values a layer reads: the second one of a crop gives its extents only.
std::size_t inputs_read(const graph_layer& l) { return l.type == "crop" ? 1 : l.inputs.size(); }

std::vector<bool> needed_layers(const model_graph& g, tensor_ref what) {
  std::vector<bool> needed(g.layers.size());
  needed[static_cast<std::size_t>(what.layer)] = true;
  for (std::size_t i = g.layers.size(); i-- > 0;)
    for (std::size_t k = 0; needed[i] && k < inputs_read(g.layers[i]); ++k)
      if (const auto from = g.layers[i].inputs[k].layer; from >= 0) needed[static_cast<std::size_t>(from)] = true;
  return needed;
}

value_info described(const std::string& name, std::int32_t type, const shape& s) {
  value_info v;
  v.name = name, v.type = type, v.shaped = true;
  for (int i = 0; i < s.rank(); ++i) v.dims.push_back(i == 0 ? dimension{-1, "N"} : dimension{s[i], {}});
  return v;
}

void name_values(export_state& s, const prediction& p, const std::vector<bool>& needed) {
  s.taken = {data_name, scores_name};
  for (const auto& l : s.model->layers) {
    auto& mine = s.values.emplace_back();
    for (std::size_t o = 0; needed[l.index] && o < l.out.size(); ++o) {
      const bool scores = p.what == tensor_ref{static_cast<std::int32_t>(l.index), static_cast<std::uint16_t>(o)};
      auto name = l.name + (o == 0 ? "" : "." + std::to_string(o));
      if (scores) name = scores_name;
      while (!scores && !s.taken.insert(name).second) name += "_";
      mine.push_back(std::move(name));
    }
  }
}

expected<void> write_layer(export_state& s, const graph_layer& l) {
  const auto write = find_layer_export(l.type);
  if (!write) return unexpected(error("type " + in_quotes(l.type) + " has no equivalent in ONNX"));
  for (std::size_t k = 0; k < inputs_read(l); ++k)
    if (from_label(l.inputs[k])) return unexpected(error("it reads the label, which the inputs of a prediction lack"));
  layer_writer w(s, l);
  return write(w);
}

// The order of the planes, if the net takes colour pictures.
void describe_pictures(const source& data, model& m) {
  const auto& example = data.example();
  if (example.rank() != 3 || example[0] != 3 || data.ids()) return;
  m.metadata.emplace_back(pixel_format_key, data.picture_order() == channel_order::bgr ? bgr_format : rgb_format);
}

diagnostics check_names(const named_tensors& weights, const name_pairs& names) {
  diagnostics wrong;
  for (const auto& [their, our] : names)
    if (std::none_of(weights.begin(), weights.end(), [&, &our_ = our](const auto& w) { return w.first == our_; }))
      wrong.push_back(
          {source_position(), "the job has no parameter '" + our + "', which the list of names gives to '" + their + "'"});
  return wrong;
}

}  // namespace

expected<exported, diagnostics> export_job(const prepared_job& j, const named_tensors& weights, const name_pairs& names) {
  const auto& g = j.graph;
  const auto what = prediction_of(g);
  if (!what) return unexpected(diagnostics{diagnostic{j.spec.at, what.error().text + ", so there is nothing to export"}});
  diagnostics wrong = check_names(weights, names);
  export_state s;
  s.model = &g;
  for (const auto& [name, value] : weights) s.weights.emplace(name, &value);
  for (const auto& [their, our] : names) s.names.emplace(our, their);
  const auto needed = needed_layers(g, what->what);
  name_values(s, *what, needed);
  std::vector<graph_layer> alone;
  for (const auto& l : g.layers) {
    alone.push_back(as_if_alone(g, l));
    const auto specs = alone.back().maths->params(alone.back().in);
    for (std::size_t k = 0; l.shared_in > 0 && k < specs.size(); ++k)
      s.shared[l.name + "." + specs[k].name] = g.params[alone.back().params[k]].full_name;
  }

  exported made;
  std::vector<std::string> left_out;
  for (const auto& l : g.layers) {
    if (!needed[l.index]) {
      if (!l.maths->is_loss() && !l.maths->is_metric()) left_out.push_back(l.name);
      continue;
    }
    if (const auto done = write_layer(s, alone[l.index]); !done)
      wrong.push_back({l.spec->at, "layer '" + l.name + "' (" + l.type + "): " + done.error().text});
  }
  if (!wrong.empty()) return unexpected(std::move(wrong));

  if (!left_out.empty()) made.notes.push_back("left out, since the prediction does not depend on them: " + joined(left_out));
  if (g.carries()) made.notes.push_back("recurrent layers begin with zeros at every example; the job carries their state on");
  if (j.spec.type() == dtype::f64) made.notes.push_back("weights are rounded to FLOAT");
  auto& m = made.model;
  m.ir_version = s.opset < 17 ? 7 : 8;
  m.opset = s.opset, m.producer = "troupe";
  m.about = "data: the net's input, after scaling and augmentation; scores: what the job's loss compares with its targets";
  describe_pictures(*j.data, m);
  m.graph = std::move(s.graph);
  m.graph.name = j.spec.name;
  m.graph.inputs = {described(data_name, g.ids ? int64 : float32, g.data)};
  const auto& last = g.layers[static_cast<std::size_t>(what->what.layer)];
  m.graph.outputs = {described(scores_name, float32, last.out[what->what.output])};
  return made;
}

}  // namespace troupe::onnx
