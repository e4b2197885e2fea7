#include "runtime/node/models/onnx/layer_writer.hpp"

#include <algorithm>

namespace troupe::onnx {

attribute attribute_of(const std::string& name, std::int64_t v) {
  attribute a;
  a.name = name, a.kind = static_cast<std::int32_t>(attribute_kind::integer), a.integer = v;
  return a;
}
attribute attribute_of(const std::string& name, double v) {
  attribute a;
  a.name = name, a.kind = static_cast<std::int32_t>(attribute_kind::real), a.real = static_cast<float>(v);
  return a;
}
attribute attribute_of(const std::string& name, const std::string& v) {
  attribute a;
  a.name = name, a.kind = static_cast<std::int32_t>(attribute_kind::text), a.text = v;
  return a;
}
attribute list_of(const std::string& name, std::vector<std::int64_t> v) {
  attribute a;
  a.name = name, a.kind = static_cast<std::int32_t>(attribute_kind::integers), a.integers = std::move(v);
  return a;
}
attribute words_of(const std::string& name, std::vector<std::string> v) {
  attribute a;
  a.name = name, a.kind = static_cast<std::int32_t>(attribute_kind::texts), a.texts = std::move(v);
  return a;
}

std::string layer_writer::input(std::size_t k) const {
  const auto& from = layer_.inputs[k];
  return from.layer == from_data ? "data" : to_.values[static_cast<std::size_t>(from.layer)][from.output];
}

std::string layer_writer::output(std::size_t k) const { return to_.values[layer_.index][k]; }

std::string layer_writer::real_name(const std::string& parameter) const {
  const auto name = layer_.name + "." + parameter;
  const auto at = to_.shared.find(name);
  return at == to_.shared.end() ? name : at->second;
}

bool layer_writer::has(const std::string& parameter) const { return to_.weights.contains(real_name(parameter)); }

std::vector<float> layer_writer::weight_values(const std::string& parameter) const {
  const tensor& t = *to_.weights.at(real_name(parameter));
  if (t.type() == dtype::f32) return {t.data<float>(), t.data<float>() + t.count()};
  std::vector<float> rounded(static_cast<std::size_t>(t.count()));
  std::transform(t.data<double>(), t.data<double>() + t.count(), rounded.begin(), [](double v) { return static_cast<float>(v); });
  return rounded;
}

std::string layer_writer::weight(const std::string& parameter, std::vector<std::int64_t> dims) {
  const auto& own = to_.weights.at(real_name(parameter))->dims();
  const bool same = dims.empty();
  for (int i = 0; same && i < own.rank(); ++i) dims.push_back(own[i]);
  auto key = real_name(parameter);
  for (auto d : dims) key += " " + std::to_string(d);
  if (const auto at = to_.written.find(key); at != to_.written.end()) return at->second;
  return to_.written[key] = reals(parameter, std::move(dims), weight_values(parameter));
}

std::string layer_writer::reals(const std::string& what, std::vector<std::int64_t> dims, std::vector<float> values) {
  tensor_value t;
  t.name = layer_.name + "." + what, t.dims = std::move(dims), t.reals = std::move(values);
  add_initializer(std::move(t));
  return to_.graph.initializers.back().name;
}

std::string layer_writer::integers(const std::string& what, std::vector<std::int64_t> values) {
  tensor_value t;
  t.name = layer_.name + "." + what, t.type = int64, t.dims = {static_cast<std::int64_t>(values.size())},
  t.whole = std::move(values);
  add_initializer(std::move(t));
  return to_.graph.initializers.back().name;
}

void layer_writer::add_initializer(tensor_value t) {
  const auto renamed = to_.names.find(t.name);
  t.name = fresh(renamed == to_.names.end() ? t.name : renamed->second);
  to_.graph.initializers.push_back(std::move(t));
}

std::string layer_writer::fresh(std::string name) {
  auto chosen = name;
  for (int n = 1; !to_.taken.insert(chosen).second; ++n) chosen = name + "_" + std::to_string(n);
  return chosen;
}

std::string layer_writer::add(part p, const std::string& op, std::vector<std::string> inputs, attributes with) {
  const auto inner = layer_.name + "/" + op + "_" + std::to_string(nodes_++);
  const bool named = p == part::main || p == part::whole, last = p == part::last || p == part::whole;
  node n;
  n.op = op, n.name = named ? layer_.name : inner;
  n.inputs = std::move(inputs);
  n.outputs = {last ? output() : fresh(inner)};
  n.attributes = std::move(with);
  to_.graph.nodes.push_back(std::move(n));
  return to_.graph.nodes.back().outputs[0];
}

void layer_writer::add_all(const std::string& op, std::vector<std::string> inputs, attributes with) {
  add(part::whole, op, std::move(inputs), std::move(with));
  to_.graph.nodes.back().outputs = to_.values[layer_.index];
}

void layer_writer::add_copy(std::size_t output_index) {
  add(output_index == 0 ? part::main : part::inner, "Identity", {input()});
  to_.graph.nodes.back().outputs = {output(output_index)};
}

layer_export find_layer_export(const std::string& type) {
  static const auto all = [] {
    std::map<std::string, layer_export> m;
    for (const auto& part_of : {window_exports(), element_exports(), norm_exports(), shape_exports(), dense_exports()})
      m.insert(part_of.begin(), part_of.end());
    return m;
  }();
  const auto found = all.find(type);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace troupe::onnx
