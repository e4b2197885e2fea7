// Builds a model_graph from a job's list of layers: resolves names, sorts layers, infers shapes,
// numbers parameters, and decides which gradients must flow. Every stage continues with the layers
// that are still valid, so that one run reports as many mistakes as possible, but not the
// consequences of a reported mistake.
#include "runtime/model/graph.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/model/freeze.hpp"
#include "runtime/model/gradients.hpp"
#include "runtime/model/graph_check.hpp"
#include "runtime/model/shape_bounds.hpp"
#include "runtime/model/share.hpp"
#include "runtime/spec/mistakes.hpp"

namespace troupe {
namespace {

// --- element types of a graph's edges: values, or ids (i32) that select a score or a row. Values
// used as ids, or ids beyond a layer's table, would index memory out of bounds; therefore every
// edge is checked when the graph is built.

struct edge_mistake {
  std::string key;  // of the layer's table
  std::string text;
};

constexpr tensor_ref of_data{from_data, 0}, of_label{from_data, 1};

bool carries_ids(const model_graph& g, tensor_ref r, dtype activations) { return g.type_of(r, activations) == dtype::i32; }

// Number of ids that `l` can look up by its input k; 0: the input is not an index.
std::int64_t places(const graph_layer& l, std::size_t k) {
  return l.maths->holds(k, l.in) == holding::values ? 0 : l.maths->ids_below(k, l.in);
}

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

// Returns the first input of `l` whose type the layer cannot read. The shapes of `l` are known.
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

// Returns the inputs of `l` that may receive ids beyond the layer's table, because the data has
// more ids.
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

// Sets label_below and id_below of a valid graph.
void bound_ids(model_graph& g) {
  for (const auto& l : g.layers)
    for (std::size_t k = 0; k < l.inputs.size(); ++k) {
      if (l.inputs[k] == of_label && places(l, k) > 0) g.label_below = g.classes;
      if (l.inputs[k] == of_data && g.ids && places(l, k) > 0) g.id_below = g.vocabulary;
    }
}

// Kahn 1962, with a heap to break ties.
// inputs[i]: the layers that layer i reads. Among layers whose inputs are all placed, the lowest
// number comes first. Layers in a cycle, or that depend on one, are left out.
std::vector<std::size_t> topological_order(const std::vector<std::vector<std::size_t>>& inputs) {
  std::vector<std::size_t> missing(inputs.size()), order;
  std::vector<std::vector<std::size_t>> readers(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    missing[i] = inputs[i].size();
    for (auto from : inputs[i]) readers[from].push_back(i);
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> unblocked;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (missing[i] == 0) unblocked.push(i);
  while (!unblocked.empty()) {
    order.push_back(unblocked.top());
    unblocked.pop();
    for (auto r : readers[order.back()])
      if (--missing[r] == 0) unblocked.push(r);
  }
  return order;
}

// Every remaining layer has a remaining input, so a walk from input to input must revisit a layer.
// One cycle among the layers that `order` leaves out, in the direction of data flow, starting at
// its lowest number. Empty if `order` contains all layers.
std::vector<std::size_t> find_cycle(const std::vector<std::vector<std::size_t>>& inputs, const std::vector<std::size_t>& order) {
  std::vector<bool> left(inputs.size(), true);
  for (auto i : order) left[i] = false;
  std::vector<std::size_t> path;
  auto at = static_cast<std::size_t>(std::find(left.begin(), left.end(), true) - left.begin());
  if (at == left.size()) return path;
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    at = *std::find_if(inputs[at].begin(), inputs[at].end(), [&](std::size_t i) { return left[i]; });
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  std::reverse(path.begin(), path.end());
  std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
  return path;
}

constexpr std::int64_t max_packets = 65535;  // header::packet has 16 bits

constexpr std::int32_t unresolved = -2;

// A layer under construction; indices are positions in the file until sort() has run.
struct draft {
  const layer_spec* spec = nullptr;
  const layer_type* type = nullptr;
  std::shared_ptr<const layer> maths;
  std::vector<tensor_ref> inputs;
  std::int32_t owner = unresolved;  // the layer whose parameters it shares
  bool sound = false;               // type known, options accepted, inputs resolved
};

class builder {
 public:
  builder(const job_spec& job, const layer_registry& registry, const example_facts& data)
      : job_(job), registry_(registry), example_(data.example), label_(data.label) {
    graph_.classes = data.classes;
    graph_.ids = data.ids;
    graph_.vocabulary = data.vocabulary;
    graph_.targets = data.targets;
  }

  expected<model_graph, diagnostics> build() {
    check_batch();
    make_drafts();
    resolve_inputs();
    resolve_shares();
    sort();
    if (graph_.packet_examples > 0) {
      infer();
      check_phases(graph_, errors_);
      check_evaluated(graph_, job_, errors_);
      if (names_resolved_) check_ends(graph_, job_, errors_);
      if (errors_.empty()) {
        graph_.local = job_.train.algorithm == "cd";
        bound_ids(graph_);
        mark_gradients(graph_);
        check_trained(graph_, job_, errors_);
        freeze_parameters(graph_, job_, errors_);
        check_algorithm(graph_, job_, errors_);
      }
    }
    if (!errors_.empty()) return unexpected(std::move(errors_));
    return std::move(graph_);
  }

 private:
  void error(source_position at, std::string message) { errors_.push_back({std::move(at), std::move(message)}); }
  void layer_error(const layer_spec& s, const std::string& key, const std::string& message) {
    errors_.push_back(mistake_of(s, key, message));
  }

  void check_batch() {
    const auto batch = job_.data.batch, packets = job_.pipeline.packets;
    const auto batch_at = position_of(job_.data.key_at, "batch", job_.data.at);
    const auto packets_at = position_of(job_.pipeline.key_at, "packets", job_.pipeline.at);
    if (batch < 1 || batch > std::numeric_limits<std::int32_t>::max()) {
      error(batch_at, "batch must be between 1 and 2147483647, not " + std::to_string(batch));
    } else if (packets < 1 || packets > max_packets) {
      error(packets_at, "packets must be between 1 and " + std::to_string(max_packets) + ", not " + std::to_string(packets));
    } else if (batch % packets != 0) {
      error(packets_at, "packets must divide the batch: " + std::to_string(batch) + " examples cannot be split into " +
                            std::to_string(packets) + " equal packets");
    } else if (example_.rank() >= shape::max_rank || label_.rank() >= shape::max_rank || !sane(example_)) {
      error(job_.data.at, "the source's examples have shape " + example_.to_string() + ", which cannot be batched");
    } else {
      graph_.packet_examples = batch / packets;
      graph_.label = shape{graph_.packet_examples};
      for (int i = 0; i < label_.rank(); ++i) graph_.label.push_back(label_[i]);
      graph_.data = shape{graph_.packet_examples};
      for (int i = 0; i < example_.rank(); ++i) graph_.data.push_back(example_[i]);
      for (const auto* s : {&graph_.data, &graph_.label})
        if (!sane(*s)) error(batch_at, "a packet of the batch would have the shape " + s->to_string() + ", which is too large");
      if (!errors_.empty()) graph_.packet_examples = 0;  // no shape can be inferred
    }
  }

  void check_name(const layer_spec& s) {
    const auto at = position_of(s, "name");
    if (s.name.empty()) return error(at, "a layer needs a name");
    if (s.name == "data" || s.name == "label")
      return error(at, "a layer cannot be called " + in_quotes(s.name) + "; this name denotes the source");
    if (const auto fine = troupe::check_name(s.name); !fine) return error(at, "layer: " + fine.error().text);
    if (s.name.find_first_of(" ./") != std::string::npos)
      return error(at, "the layer name " + in_quotes(s.name) + " contains a space, '.' or '/'");
  }

  void make_drafts() {
    if (job_.layers.empty()) error(job_.at, "the job has no layers: add [[layer]] tables");
    for (std::size_t i = 0; i < job_.layers.size(); ++i) {
      const auto& s = job_.layers[i];
      check_name(s);
      const auto [first, fresh] = by_name_.try_emplace(s.name, static_cast<std::int32_t>(i));
      if (!fresh && !s.name.empty()) {
        const auto& other = job_.layers[static_cast<std::size_t>(first->second)];
        error(position_of(s, "name"),
              "duplicate layer name " + in_quotes(s.name) + "; first used at " + position_of(other, "name").to_string());
      }
      drafts_.push_back(make_draft(s));
    }
  }

  draft make_draft(const layer_spec& s) {
    draft d;
    d.spec = &s;
    d.type = registry_.find(s.type);
    if (!d.type) {
      layer_error(s, "type", "unknown layer type " + in_quotes(s.type) + did_you_mean(s.type, registry_.names()));
      return d;
    }
    if (job_.type() == dtype::bf16 && !d.type->takes_bf16)
      layer_error(s, "type", in_quotes(s.type) + " does not compute in bf16: use precision = \"fp32\"");
    try {
      // The reader of the job file has filled in every option; a table made by hand is not yet
      // checked.
      const auto present = [&](const option_spec& o) { return s.values.has(o.name); };
      const bool checked =
          s.values.values.size() == d.type->specs.size() && std::all_of(d.type->specs.begin(), d.type->specs.end(), present);
      const auto& values = checked ? s.values : check_options(s.values, d.type->specs);
      check_numbers(values);
      d.maths = d.type->make(values);
      d.sound = d.maths != nullptr;
    } catch (const option_error& e) {
      layer_error(s, e.key, e.what());
    }
    return d;
  }

  // "ip1", "slice1.1", "data", "label"; layer == unresolved if there is no such tensor.
  tensor_ref resolve(const std::string& input) const {
    if (input == "data") return {from_data, 0};
    if (input == "label") return {from_data, 1};
    if (auto i = by_name_.find(input); i != by_name_.end()) return {i->second, 0};
    const auto dot = input.rfind('.');
    if (dot == std::string::npos) return {unresolved, 0};
    const auto number = input.substr(dot + 1);
    auto i = by_name_.find(input.substr(0, dot));
    const auto digit = [](unsigned char c) { return c >= '0' && c <= '9'; };
    if (i == by_name_.end() || number.empty() || number.size() > 4 || !std::all_of(number.begin(), number.end(), digit))
      return {unresolved, 0};
    return {i->second, static_cast<std::uint16_t>(std::stoi(number))};
  }

  void resolve_inputs() {
    std::vector<std::string> known{"data", "label"};
    for (const auto& s : job_.layers) known.push_back(s.name);
    for (auto& d : drafts_) {
      const auto& s = *d.spec;
      for (std::size_t k = 0; k < s.inputs.size(); ++k) {
        const auto key = "inputs." + std::to_string(k);
        const auto ref = resolve(s.inputs[k]);
        if (ref.layer == unresolved) {
          // Comparing with every name of a large file is slow, and mistakes beyond this number are
          // not shown.
          const auto hint = errors_.size() < max_mistakes_shown ? did_you_mean(s.inputs[k], known) : std::string();
          layer_error(s, key, "unknown input " + in_quotes(s.inputs[k]) + hint);
          names_resolved_ = d.sound = false;
        } else if (ref == tensor_ref{from_data, 1} && !graph_.has_labels()) {
          layer_error(s, key, "the source " + in_quotes(job_.data.source) + " has no labels");
          d.sound = false;
        }
        d.inputs.push_back(ref);
      }
      if (d.type) check_input_count(d);
    }
  }

  void resolve_shares() {
    for (auto& d : drafts_) {
      if (d.spec->share.empty()) continue;
      const auto name = shared_name(d.spec->share).first;
      const auto at = by_name_.find(name);
      d.sound = d.sound && at != by_name_.end() && name != d.spec->name;
      if (at == by_name_.end())
        layer_error(*d.spec, "share", "unknown layer " + in_quotes(name) + did_you_mean_layer(job_, name));
      else if (name == d.spec->name)
        layer_error(*d.spec, "share", "a layer cannot share parameters with itself");
      else
        d.owner = at->second;
    }
  }

  void check_input_count(draft& d) {
    const auto& s = *d.spec;
    const auto n = static_cast<int>(s.inputs.size());
    if (n >= d.type->min_inputs && (d.type->max_inputs < 0 || n <= d.type->max_inputs)) return;
    d.sound = false;
    if (n == 0) {
      names_resolved_ = false;  // another layer's output is probably meant as its input
      return layer_error(s, "inputs", "it has no inputs: add them, as in inputs = [\"" + likely_input(s) + "\"]");
    }
    auto wanted = std::to_string(d.type->min_inputs);
    if (d.type->max_inputs < 0)
      wanted += " or more";
    else if (d.type->max_inputs != d.type->min_inputs)
      wanted += " to " + std::to_string(d.type->max_inputs);
    layer_error(s, "inputs",
                "a " + s.type + " layer takes " + wanted + " input" + (wanted == "1" ? "" : "s") + ", not " + std::to_string(n) +
                    " (" + shortened(joined(s.inputs), 200) + ")");
  }

  std::string likely_input(const layer_spec& s) const { return &s == job_.layers.data() ? "data" : (&s - 1)->name; }

  void sort() {
    std::vector<std::vector<std::size_t>> inputs(drafts_.size());
    for (std::size_t i = 0; i < drafts_.size(); ++i)
      for (const auto& r : drafts_[i].inputs)
        if (r.layer >= 0) inputs[i].push_back(static_cast<std::size_t>(r.layer));
    for (std::size_t i = 0; i < drafts_.size(); ++i)
      if (drafts_[i].owner >= 0) inputs[i].push_back(static_cast<std::size_t>(drafts_[i].owner));
    order_ = topological_order(inputs);
    place_.assign(drafts_.size(), unresolved);
    for (std::size_t k = 0; k < order_.size(); ++k) place_[order_[k]] = static_cast<std::int32_t>(k);
    const auto cycle = find_cycle(inputs, order_);
    if (cycle.empty()) return;
    names_resolved_ = false;
    std::vector<std::string> names;
    for (auto i : cycle) names.push_back(drafts_[i].spec->name);
    names.push_back(names.front());
    const bool shares = std::any_of(cycle.begin(), cycle.end(), [&](auto i) { return drafts_[i].owner >= 0; });
    layer_error(*drafts_[cycle.front()].spec, "inputs",
                "the layers form a cycle: " + joined(names, " -> ") +
                    (shares ? "; a layer with share comes after the layer whose parameters it uses" : ""));
  }

  const shape* shape_of(tensor_ref r) const {
    if (r.layer == from_data) return r.output == 0 ? &graph_.data : &graph_.label;
    const auto& from = graph_.layers[static_cast<std::size_t>(r.layer)];
    return r.output + std::size_t{from.shared_out} < from.out.size() ? &from.out[r.output] : nullptr;
  }

  void infer() {
    for (auto i : order_) {
      auto& d = drafts_[i];
      graph_layer g;
      g.index = static_cast<std::uint32_t>(graph_.layers.size());
      g.name = d.spec->name;
      g.type = d.spec->type;
      g.maths = d.maths;
      g.spec = d.spec;
      for (auto r : d.inputs) {
        if (r.layer >= 0) r.layer = place_[static_cast<std::size_t>(r.layer)];
        g.inputs.push_back(r);
      }
      g.in_train = d.spec->phase != "test";
      g.recompute = d.spec->recompute;
      g.gather = d.spec->gather;
      g.in_test = d.spec->phase != "train";
      if (d.maths) {
        if (d.maths->test_phase_only()) g.in_train = false;
        g.loss_weight = d.maths->is_loss() ? d.spec->loss_weight.value_or(1.0) : 0.0;
        if (d.spec->loss_weight && !d.maths->is_loss())
          layer_error(*d.spec, "loss_weight", "loss_weight is an option of loss layers, not of " + d.spec->type);
      }
      if (d.sound && gather(d, g)) infer_one(d, g);
      graph_.layers.push_back(std::move(g));
    }
  }

  // Returns false after a mistake of this layer or its owner.
  bool share(const draft& d, graph_layer& g) {
    const auto place = place_[static_cast<std::size_t>(d.owner)];
    if (place < 0 || place >= std::ssize(graph_.layers)) return false;  // a cycle
    auto& owner = graph_.layers[static_cast<std::size_t>(place)];
    if (owner.out.empty()) return false;
    const auto wrong = share_parameters(graph_, g, owner, job_.type());
    if (wrong) layer_error(*d.spec, "share", *wrong);
    return !wrong;
  }

  // Collects the input shapes. Returns false if one of them is unknown because of a mistake, which
  // has been reported.
  bool gather(const draft& d, graph_layer& g) {
    for (std::size_t k = 0; k < g.inputs.size(); ++k) {
      const auto r = g.inputs[k];
      const auto* s = shape_of(r);
      if (!s) {
        const auto& from = graph_.layers[static_cast<std::size_t>(r.layer)];
        names_resolved_ = false;
        if (!from.out.empty())
          layer_error(*d.spec, "inputs." + std::to_string(k),
                      "layer " + in_quotes(from.name) + " has " + std::to_string(from.out.size() - from.shared_out) +
                          " output(s), but no output " + std::to_string(r.output));
        return false;
      }
      g.in.push_back(*s);
    }
    const auto wrong = wrong_type(graph_, g, job_);
    if (wrong) layer_error(*d.spec, wrong->key, wrong->text);
    return !wrong;
  }

  void infer_one(const draft& d, graph_layer& g) {
    try {
      auto out = g.maths->infer(g.in);
      if (d.owner >= 0 && !share(d, g)) return;
      if (out.size() > max_outputs)
        return layer_error(*g.spec, "",
                           "it has " + std::to_string(out.size()) + " outputs, the maximum is " + std::to_string(max_outputs));
      for (const auto& s : out)
        if (!sane(s)) return layer_error(*g.spec, "", "its output " + s.to_string() + " would be empty or too large");
      add_params(g);
      for (const auto& wrong : wrong_ids(graph_, g)) layer_error(*g.spec, wrong.key, wrong.text);
      if (job_.train.algorithm == "bptt") g.carries = g.maths->carries(g.in);
      g.out = std::move(out);
    } catch (const shape_error& e) {
      layer_error(*g.spec, "", e.what());
    } catch (const option_error& e) {
      layer_error(*g.spec, e.key, e.what());
    }
  }

  bool check_scales(const graph_layer& g, const char* key, const std::vector<double>& list, std::size_t params) {
    if (list.empty() || list.size() == params) return true;
    layer_error(*g.spec, key,
                std::string(key) + " lists " + std::to_string(list.size()) + " factors, but a " + g.type + " layer has " +
                    std::to_string(params) + " parameters here");
    return false;
  }

  codec_spec codec_of(const layer_spec& l) const {
    const auto& t = job_.train;
    return {codec_kind_of(l.compress.empty() ? t.compress : l.compress), t.fraction, t.threshold};
  }

  void add_params(graph_layer& g) {
    auto specs = g.maths->params(g.in);
    if (!check_scales(g, "lr_scale", g.spec->lr_scales, specs.size()) ||
        !check_scales(g, "decay_scale", g.spec->decay_scales, specs.size()))
      return;
    for (std::size_t k = 0; k < specs.size(); ++k) {
      graph_param p;
      p.layer = g.index;
      p.index_in_layer = static_cast<std::uint32_t>(k);
      p.spec = std::move(specs[k]);
      if (!sane(p.spec.dims))
        throw shape_error("its parameter '" + p.spec.name + "' " + p.spec.dims.to_string() + " would be empty or too large");
      p.spec.lr_multiplier *= g.spec->lr_scales.empty() ? g.spec->lr_scale : g.spec->lr_scales[k];
      if (!g.spec->decay_scales.empty() && p.spec.trainable)
        p.spec.decay_multiplier = g.spec->decay_scales[k];
      else if (g.spec->decay_scale && p.spec.trainable)
        p.spec.decay_multiplier = *g.spec->decay_scale;
      if (p.spec.trainable) p.codec = codec_of(*g.spec);
      p.full_name = g.name + "." + p.spec.name;
      p.offset = graph_.parameter_count;
      graph_.parameter_count += p.spec.dims.count();
      if (graph_.parameter_count > max_elements) throw shape_error("with this parameter the model has more than 2^40 parameters");
      g.params.push_back(static_cast<std::uint32_t>(graph_.params.size()));
      graph_.params.push_back(std::move(p));
    }
  }

  const job_spec& job_;
  const layer_registry& registry_;
  shape example_, label_;
  model_graph graph_;
  diagnostics errors_;
  std::map<std::string, std::int32_t, std::less<>> by_name_;
  std::vector<draft> drafts_;        // in file order
  std::vector<std::size_t> order_;   // topological order -> position in the file
  std::vector<std::int32_t> place_;  // inverse of order_
  bool names_resolved_ = true;       // false: "output is not used" would only repeat another mistake
};

}  // namespace

expected<model_graph, diagnostics> build_graph(const job_spec& job, const layer_registry& layers, const example_facts& data) {
  return builder(job, layers, data).build();
}

}  // namespace troupe
