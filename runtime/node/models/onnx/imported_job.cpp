#include "runtime/node/models/onnx/imported_job.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "runtime/base/number_text.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"

namespace troupe::onnx {
namespace {

std::string real_text(double v) {
  auto s = number_text(v);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";  // TOML distinguishes 1 and 1.0
  return s;
}

std::string quoted_text(const std::string& s) {
  std::string q = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') q += '\\';
    q += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '_' : c;
  }
  return q + "\"";
}

template <class T, class F>
std::string list_text(const std::vector<T>& all, F text) {
  std::string s;
  for (const auto& v : all) s += (s.empty() ? "" : ", ") + text(v);
  return "[" + s + "]";
}

std::string whole_text(std::int64_t v) { return std::to_string(v); }

std::string option_text(const option_value& v) {
  if (const auto* b = std::get_if<bool>(&v)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<std::int64_t>(&v)) return whole_text(*i);
  if (const auto* d = std::get_if<double>(&v)) return real_text(*d);
  if (const auto* s = std::get_if<std::string>(&v)) return quoted_text(*s);
  if (const auto* l = std::get_if<std::vector<std::int64_t>>(&v)) return list_text(*l, whole_text);
  if (const auto* r = std::get_if<std::vector<double>>(&v)) return list_text(*r, real_text);
  return "[]";
}

// Without the options that have their default.
std::string layer_text(const importing& to, const draft_layer& d) {
  std::string s = "\n[[layer]]\nname = " + quoted_text(d.name) + "\ntype = " + quoted_text(d.type) +
                  "\ninputs = " + list_text(d.inputs, quoted_text) + "\n";
  for (const auto& spec : to.registry->find(d.type)->specs) {
    const auto given = d.given.find(spec.name);
    if (given != d.given.end() && given->second != spec.fallback) s += spec.name + " = " + option_text(given->second) + "\n";
  }
  if (!d.share.empty()) s += "share = " + quoted_text(d.share) + "\n";
  return s;
}

std::string maker_of(const std::string& tensor) { return tensor.substr(0, tensor.find('.')); }

// Removes the layers that no output depends on.
void prune(importing& to, const std::vector<activation>& outputs) {
  std::set<std::string> needed;
  for (const auto& o : outputs) needed.insert(maker_of(o.tensor));
  for (std::size_t i = to.layers.size(); i-- > 0;)
    if (needed.contains(to.layers[i].name))
      for (const auto& in : to.layers[i].inputs) needed.insert(maker_of(in));
  std::erase_if(to.layers, [&](const draft_layer& d) {
    if (needed.contains(d.name)) return false;
    if (d.type == "reshape") return true;  // a reshape back has undone it
    to.notes.push_back("left out, since no output depends on it: " + d.name);
    return true;
  });
}

std::string parameter_of(const draft_layer& d, const std::string& weight) { return weight.substr(d.name.size() + 1); }

bool same_bits(const tensor& a, const tensor& b) { return a.dims() == b.dims() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0; }

// The initializers that two layers read, and the numbers of values of those that only one reads.
struct shared_origins {
  std::vector<const tensor_value*> both;
  std::set<std::int64_t> counts_of_both, counts_of_one;
};

shared_origins origins_of_both(const importing& to, const draft_layer& a, const draft_layer& b) {
  shared_origins s;
  const auto& all = to.from->graph.initializers;
  for (const auto k : a.origins) {
    if (b.origins.contains(k)) s.both.push_back(&all[k]);
    (b.origins.contains(k) ? s.counts_of_both : s.counts_of_one).insert(all[k].count());
  }
  for (const auto k : b.origins)
    if (!a.origins.contains(k)) s.counts_of_one.insert(all[k].count());
  return s;
}

// The parameters of `d` that `owner` has under the same names, with the same values, from an
// initializer that both read. Parameters of other initializers may have the same values, as zeros:
// the number of values tells them apart.
std::vector<std::string> common_parameters(const draft_layer& owner, const draft_layer& d, const shared_origins& origins) {
  std::vector<std::string> common;
  for (const auto& [name, value] : d.weights) {
    const auto count = value.dims().count();
    if (!origins.counts_of_one.empty() && (!origins.counts_of_both.contains(count) || origins.counts_of_one.contains(count)))
      continue;
    for (const auto& [of_owner, owned] : owner.weights)
      if (parameter_of(d, name) == parameter_of(owner, of_owner) && same_bits(value, owned))
        common.push_back(parameter_of(d, name));
  }
  return common;
}

// Lets `d` share the parameters of `owner`, if both have them in one form; otherwise a note.
void share_parameters(importing& to, const draft_layer& owner, draft_layer& d) {
  constexpr std::size_t longest_name = 80;
  const auto origins = origins_of_both(to, owner, d);
  std::vector<std::string> tied;
  for (const auto* t : origins.both) tied.push_back(shortened(t->name, longest_name));
  const auto common = common_parameters(owner, d, origins);
  const bool whole = common.size() == d.weights.size();
  if (d.type == "batch_norm" || owner.type == "batch_norm" || common.empty() || (!whole && common.size() > 1)) {
    to.notes.push_back("layers " + owner.name + " and " + d.name + " have copies of " + joined(tied) +
                       ", which the model has once: they are trained apart");
    return;
  }
  d.share = whole ? owner.name : owner.name + "." + common[0];
  to.notes.push_back("layers " + owner.name + " and " + d.name + " share " + joined(tied) + ", as in the model");
  std::erase_if(d.weights,
                [&](const auto& w) { return std::find(common.begin(), common.end(), parameter_of(d, w.first)) != common.end(); });
}

// Layers whose nodes read one initializer share the parameter with the first of them.
void share_tied(importing& to) {
  std::map<std::size_t, std::size_t> owners;  // initializer -> the first layer that has parameters of it
  for (std::size_t k = 0; k < to.layers.size(); ++k) {
    auto& d = to.layers[k];
    if (d.weights.empty() || d.origins.contains(many_origins)) continue;
    auto first = k;
    for (const auto o : d.origins)
      if (const auto known = owners.find(o); known != owners.end()) first = std::min(first, known->second);
    if (first < k) share_parameters(to, to.layers[first], d);
    if (d.weights.empty()) continue;
    for (const auto o : d.origins) owners.emplace(o, k);
  }
}

std::int64_t values_of(const activation& a) { return product(a.dims, 1); }

std::string data_text(importing& to, const activation& data, std::int64_t classes) {
  const extents example(data.dims.begin() + 1, data.dims.end());
  std::string s = "[data]\n";
  if (data.ids) {
    to.notes.push_back(
        "the input is ids: [data] reads data.npz, whose arrays x_train, y_train, x_test and y_test you make (docs/data.md)");
    return s + "source = \"numpy\"\npath = \"data.npz\"\nids = true\nshape = " + list_text(example, whole_text) + "\nbatch = 64\n";
  }
  to.notes.push_back("[data] makes synthetic examples: replace its source by your data, scaled as the model expects");
  s += "# Replace the source by your data.\nsource = \"synthetic\"\nshape = " + list_text(example, whole_text) +
       "\nclasses = " + whole_text(std::min<std::int64_t>(classes, 1'000'000)) + "\nbatch = 64\n";
  const auto& facts = to.from->metadata;
  if (std::find(facts.begin(), facts.end(), std::pair<std::string, std::string>(pixel_format_key, bgr_format)) != facts.end())
    s += "channel_order = \"bgr\"\n";
  return s;
}

std::string loss_text(importing& to, const activation& data, const activation& output, const std::string& name) {
  draft_layer loss;
  loss.name = layer_name(to, name), loss.type = "softmax_loss", loss.inputs = {output.tensor, "label"};
  if (output.dims.size() != 2 && output.dims == data.dims && !data.ids) {
    loss.type = "euclidean", loss.inputs[1] = "data";
    to.notes.push_back("the output " + output.tensor + " has the extents of the input: its loss compares the two");
  } else if (output.dims.size() != 2) {
    to.notes.push_back(
        "the output " + output.tensor + " is " + text_of({output.dims.begin() + 1, output.dims.end()}) +
        " an example, not a list of classes: its softmax_loss takes all values as scores; replace it by the loss that fits");
  }
  return layer_text(to, loss);
}

}  // namespace

imported_model imported_job(importing& to, const activation& data, const std::vector<activation>& outputs,
                            const std::string& name) {
  prune(to, outputs);
  share_tied(to);
  if (outputs.size() > 1) to.notes.push_back("the graph has " + std::to_string(outputs.size()) + " outputs: each has a loss");
  std::int64_t classes = std::max<std::int64_t>(values_of(outputs[0]), 1);
  for (const auto& o : outputs) classes = std::min(classes, std::max<std::int64_t>(values_of(o), 1));
  imported_model made;
  const auto& m = *to.from;
  const auto origin = m.producer + (m.producer_version.empty() ? "" : " " + m.producer_version);
  made.job = "# From an ONNX model" + (origin.empty() ? "" : " of " + as_name(origin)) + ", operator set " +
             std::to_string(m.opset) + ".\n[job]\nname = " + quoted_text(name.empty() ? "imported" : as_name(name)) + "\n\n" +
             data_text(to, data, classes);
  for (auto& l : to.layers) {
    made.job += layer_text(to, l);
    made.weights.insert(made.weights.end(), l.weights.begin(), l.weights.end());
  }
  for (const auto& o : outputs) made.job += loss_text(to, data, o, "loss");
  made.job += "\n[train]\nsync = { mode = \"bsp\" }\ndynamics = { rule = \"sgd\", lr = 0.01 }\nfinish = { epochs = 1 }\n";
  made.notes = to.notes;
  return made;
}

}  // namespace troupe::onnx
