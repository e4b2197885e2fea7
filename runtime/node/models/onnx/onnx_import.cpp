#include "runtime/node/models/onnx/onnx_import.hpp"

#include <algorithm>
#include <filesystem>

#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/models/onnx/import_state.hpp"
#include "runtime/node/models/onnx/imported_job.hpp"

namespace troupe::onnx {
namespace {

using handler_map = std::map<std::string, handler>;

const handler_map& handlers_of_data() {
  static const auto all = [] {
    handler_map m;
    for (const auto& some : {window_handlers(), element_handlers(), operand_handlers(), norm_handlers(), shape_handlers(),
                             move_handlers(), dense_handlers(), recurrent_handlers()})
      m.insert(some.begin(), some.end());
    return m;
  }();
  return all;
}

const handler_map& handlers_of_constants() {
  static const auto all = [] {
    handler_map m;
    for (const auto& some : {constant_handlers(), constant_math_handlers()}) m.insert(some.begin(), some.end());
    return m;
  }();
  return all;
}

std::string place_of_node(const node& n, std::size_t index) {
  const auto domain = n.domain.empty() || n.domain == pattern_domain ? "" : n.domain + ".";
  return "node " + (n.name.empty() ? std::to_string(index) : in_quotes(n.name)) + " (" + domain + n.op + ")";
}

// The only input that is no weight.
activation data_of(importing& to) {
  std::set<std::string> weights;
  for (const auto& t : to.from->graph.initializers) weights.insert(t.name);
  std::vector<const value_info*> inputs;
  for (const auto& v : to.from->graph.inputs)
    if (!weights.contains(v.name)) inputs.push_back(&v);
  if (inputs.size() != 1) throw refusal("the graph has " + std::to_string(inputs.size()) + " inputs; one is supported");
  const auto& in = *inputs[0];
  const auto where = "input " + in_quotes(in.name);
  const bool ids = in.type == int64 || in.type == int32;
  if (!ids && !is_real(in.type))
    throw refusal(where + " is of type " + element_name(in.type) + "; FLOAT, INT64 and INT32 are supported");
  if (!in.shaped || in.dims.empty() || in.dims.size() > static_cast<std::size_t>(shape::max_rank))
    throw refusal(where + " has " + (in.shaped ? std::to_string(in.dims.size()) : "unknown") + " axes; 1 to " +
                  std::to_string(shape::max_rank) + ", with the batch in front, are supported");
  extents dims;
  for (const auto& d : in.dims) dims.push_back(d.extent);
  if (dims[0] < 1 || dims[0] > unknown_batch) dims[0] = unknown_batch;
  for (std::size_t a = 1; a < dims.size(); ++a)
    if (dims[a] < 1)
      throw refusal(where + " has no fixed extent on axis " + std::to_string(a) +
                    "; export the model with one (dynamic_axes for the batch only)");
  const bool single = dims.size() == 1;  // [N]: one value for each example, Troupe's [N, 1]
  if (single) dims.push_back(1);
  auto data = activation_of("data", dims);
  data.ids = ids;
  auto view = data;
  if (single) view.joined = {2};
  to.values.insert_or_assign(in.name, graph_value(view));
  return data;
}

void read_node(importing& to, const node& n) {
  const node_view view(to, n);
  if (!n.domain.empty() && n.domain != "ai.onnx" && n.domain != pattern_domain)
    throw refusal("operators of domain " + in_quotes(n.domain) + " are not supported");
  bool constants = true;
  for (std::size_t k = 0; k < n.inputs.size(); ++k) constants &= !view.given(k) || view.constant_at(k);
  const auto& known = constants ? handlers_of_constants() : handlers_of_data();
  const auto found = known.find(n.op);
  if (found == known.end())
    throw refusal(constants ? "this operator on constants is not supported" : "this operator is not supported");
  found->second(view);
}

// The tensor that the loss reads: a softmax that only the output reads is the loss's own.
activation output_of(importing& to, const std::string& name, const std::vector<node>& nodes, std::set<std::string>& skipped) {
  for (const auto& n : nodes) {
    if ((n.op != "Softmax" && n.op != "LogSoftmax") || n.outputs.size() != 1 || n.outputs[0] != name || n.inputs.size() != 1)
      continue;
    if (!skipped.contains(name)) break;
    to.notes.push_back("the last " + n.op + " is left out: softmax_loss computes it, and predictions have probabilities");
    return output_of(to, n.inputs[0], {}, skipped);
  }
  const auto found = to.values.find(name);
  if (found == to.values.end()) throw refusal("no node computes the output " + in_quotes(name));
  if (!std::holds_alternative<activation>(found->second))
    throw refusal("the output " + in_quotes(name) + " does not depend on the input");
  try {
    const auto& x = std::get<activation>(found->second);
    // [N] is one value for each example.
    return plain_of(to, x.rank() == 1 ? reshaped_by_layer(to, name, x, {x.shown()[0], 1}) : x);
  } catch (const refusal& e) {
    throw refusal("output " + in_quotes(name) + ": " + e.what());
  }
}

// Outputs of a Softmax over the classes [N, C] that nothing else reads.
std::set<std::string> last_softmaxes(const importing& to, const std::vector<node>& nodes) {
  std::set<std::string> outputs, skipped;
  for (const auto& o : to.from->graph.outputs) outputs.insert(o.name);
  for (const auto& n : nodes)
    if ((n.op == "Softmax" || n.op == "LogSoftmax") && n.outputs.size() == 1 && outputs.contains(n.outputs[0]) &&
        to.readers.at(n.outputs[0]) == 1)
      skipped.insert(n.outputs[0]);
  return skipped;
}

// Whether the softmax normalises the classes of [N, C].
bool over_classes(const importing& to, const node& n) {
  const auto x = to.values.find(n.inputs.empty() ? "" : n.inputs[0]);
  if (x == to.values.end() || !std::holds_alternative<activation>(x->second)) return false;
  std::int64_t axis = to.from->opset < 13 ? 1 : -1;
  for (const auto& a : n.attributes)
    if (a.name == "axis") axis = a.integer;
  const auto& v = std::get<activation>(x->second);
  return v.in_order() && v.axes.size() == 2 && (axis == 1 || axis == -1);
}

void count_readers(importing& to, const std::vector<node>& nodes) {
  for (const auto& n : nodes)
    for (const auto& i : n.inputs)
      if (!i.empty()) ++to.readers[i];
  for (const auto& o : to.from->graph.outputs) ++to.readers[o.name];
}

void add_initializer(importing& to, std::size_t number) {
  const auto& t = to.from->graph.initializers[number];
  if (is_real(t.type) && t.count() > 1) to.origins[t.name] = {number};
  to.values.insert_or_assign(t.name, graph_value(std::make_shared<const tensor_value>(t)));
}

// The initializers behind the outputs of a node, or behind the layers that it added.
void follow_origins(importing& to, const node& n, std::size_t layers_before) {
  origin_set all;
  for (const auto& in : n.inputs)
    if (const auto known = to.origins.find(in); known != to.origins.end()) {
      all.insert(known->second.begin(), known->second.end());
      if (all.size() > most_origins || all.contains(many_origins)) all = {many_origins};
    }
  for (auto k = layers_before; k < to.layers.size(); ++k) to.layers[k].origins = all;
  for (const auto& out : n.outputs)
    if (const auto made = to.values.find(out); made != to.values.end() && std::holds_alternative<constant>(made->second))
      to.origins[out] = all;
}

struct job_parts {
  activation data;
  std::vector<activation> outputs;
};

job_parts read_graph_nodes(importing& to) {
  job_parts made{data_of(to), {}};
  for (std::size_t k = 0; k < to.from->graph.initializers.size(); ++k) add_initializer(to, k);
  const auto nodes = with_patterns(*to.from);
  count_readers(to, nodes);
  auto skipped = last_softmaxes(to, nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& n = nodes[i];
    const auto place = place_of_node(n, i);
    if (n.outputs.size() == 1 && skipped.contains(n.outputs[0])) {
      if (over_classes(to, n)) continue;
      skipped.erase(n.outputs[0]);
    }
    const auto before = to.layers.size();
    try {
      read_node(to, n);
    } catch (const refusal& e) {
      throw refusal(place + ": " + e.what());
    }
    follow_origins(to, n, before);
    for (std::size_t k = 0; k < n.outputs.size(); ++k)
      if (!to.values.contains(n.outputs[k])) to.not_given.emplace(n.outputs[k], place);
  }
  for (const auto& o : to.from->graph.outputs) made.outputs.push_back(output_of(to, o.name, nodes, skipped));
  if (made.outputs.empty()) throw refusal("the graph has no outputs");
  for (const auto& o : made.outputs)
    if (o.tensor == "data") throw refusal("an output is the input itself");
  return made;
}

}  // namespace

expected<imported_model, diagnostics> import_graph(const model& m, const std::string& file) {
  layer_registry registry;
  add_stock_layers(registry);
  importing to;
  to.from = &m, to.registry = &registry;
  to.names = {"data", "label"};
  try {
    const auto parts = read_graph_nodes(to);
    return imported_job(to, parts.data, parts.outputs, std::filesystem::path(file).stem().string());
  } catch (const refusal& e) {
    return unexpected(model_error(file, with_batch_named(e.what())));
  }
}

}  // namespace troupe::onnx
