#include "runtime/node/models/onnx/import_state.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"

namespace troupe::onnx {
namespace {

constexpr std::int64_t most_values_of_example = std::int64_t{1} << 31;

shape shape_of(const extents& dims) {
  shape s;
  for (const auto e : dims) s.push_back(e);
  return s;
}

extents extents_of(const shape& s) {
  extents e;
  for (int i = 0; i < s.rank(); ++i) e.push_back(s[i]);
  return e;
}

void check_size(const extents& dims) {
  if (dims.size() > static_cast<std::size_t>(shape::max_rank))
    throw refusal("a tensor of " + std::to_string(dims.size()) + " axes; at most " + std::to_string(shape::max_rank) +
                  " are supported");
  std::int64_t count = 1;
  for (std::size_t i = 1; i < dims.size(); ++i) {
    if (dims[i] < 1 || dims[i] > most_values_of_example / count)
      throw refusal("a tensor of " + text_of(dims) + " values is empty or too large");
    count *= dims[i];
  }
}

std::string valid_name(const std::string& wanted) {
  std::string s;
  for (const char c : wanted) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (good || !s.empty()) s += good ? c : '_';
  }
  if (s.size() > 100) s = s.substr(s.size() - 100);
  if (s.empty() || s == "data" || s == "label") s += "_layer";
  return s;
}

}  // namespace

std::string with_batch_named(std::string text) {
  const auto number = std::to_string(unknown_batch);
  const auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  for (auto at = text.find(number); at != std::string::npos; at = text.find(number, at + 1))
    if (!digit(at + number.size()) && (at == 0 || !digit(at - 1))) text.replace(at, number.size(), "N");
  return text;
}

std::string text_of(const extents& dims) {
  std::string s;
  for (const auto e : dims) {
    const auto batches = e > 0 && e % unknown_batch == 0 ? e / unknown_batch : 0;
    if (!s.empty()) s += "x";
    if (batches > 1) s += std::to_string(batches);
    s += batches > 0 ? "N" : std::to_string(e);
  }
  return s.empty() ? "scalar" : s;
}

double decimal_of(float v) {
  double shortest = 0;
  if (!std::isfinite(v) || !read_number(number_text(v), shortest)) throw refusal("it has a number that is not finite");
  return shortest;
}

std::int64_t product(const extents& dims, std::size_t from) {
  return std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(from), dims.end(), std::int64_t{1}, std::multiplies<>());
}

std::string layer_name(importing& to, const std::string& wanted) {
  const auto base = valid_name(wanted);
  auto chosen = base;
  for (int n = 1; !to.names.insert(chosen).second; ++n) chosen = base + "_" + std::to_string(n);
  return chosen;
}

std::vector<activation> add_layer(importing& to, const std::string& name, const std::string& type,
                                  const std::vector<activation>& in, options_given given, std::vector<std::vector<float>> weights) {
  const auto* entry = to.registry->find(type);
  shapes shapes_in;
  for (const auto& x : in) check_size(x.dims), shapes_in.push_back(shape_of(x.dims));
  draft_layer d;
  d.name = layer_name(to, name), d.type = type, d.given = given;
  for (const auto& x : in) d.inputs.push_back(x.tensor);
  try {
    const auto maths = entry->make(check_options({std::move(given)}, entry->specs));
    const auto out = maths->infer(shapes_in);
    const auto params = maths->params(shapes_in);
    if (params.size() != weights.size())
      throw refusal("it has " + std::to_string(weights.size()) + " weights, layer type '" + type + "' has " +
                    std::to_string(params.size()));
    for (std::size_t k = 0; k < params.size(); ++k) {
      if (static_cast<std::int64_t>(weights[k].size()) != params[k].dims.count())
        throw refusal("its " + params[k].name + " has " + std::to_string(weights[k].size()) + " values, " +
                      params[k].dims.to_string() + " are needed");
      d.weights.emplace_back(d.name + "." + params[k].name, to.weights.keep(params[k].dims, std::move(weights[k])));
    }
    std::vector<activation> results;
    for (std::size_t o = 0; o < out.size(); ++o)
      results.push_back(activation_of(d.name + (o == 0 ? "" : "." + std::to_string(o)), extents_of(out[o])));
    for (const auto& r : results) check_size(r.dims);
    to.layers.push_back(std::move(d));
    return results;
  } catch (const shape_error& e) {
    throw refusal(e.what());
  } catch (const option_error& e) {
    throw refusal(e.what());
  }
}

extents extents_asked(const node_view& n, const extents& shown) {
  const auto rank = std::ssize(shown);
  const auto place = [&](const char* name, std::int64_t otherwise) {
    const auto v = n.integer(name, otherwise);
    return std::clamp<std::int64_t>(v < 0 ? v + rank : v, 0, rank);
  };
  const auto start = place("start", 0), end = std::max(place("end", rank), start);
  return {shown.begin() + start, shown.begin() + end};
}

extents reshape_extents(const node_view& n, std::size_t k, const extents& shown) {
  auto to = n.wholes(k, "shape");
  std::int64_t rest = 1;
  std::size_t open = to.size();
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && n.integer("allowzero", 0) == 0) to[i] = i < shown.size() ? shown[i] : -2;
    if (to[i] == -1 && open == to.size())
      open = i;
    else if (to[i] < 1 || to[i] > (std::int64_t{1} << 40) / rest)
      throw refusal("its shape " + text_of(to) + " is not possible");
    else
      rest *= to[i];
  }
  const auto count = product(shown);
  if (open < to.size()) to[open] = count / rest;
  if (product(to) != count)
    throw refusal(
        "its shape " + text_of(to) + " has another number of values than " + text_of(shown) + ", N the batch: a fixed batch " +
        "in a shape does not fit any other; export the model with the batch as a dynamic axis, and reshape with -1 or 0 for it");
  return to;
}

const attribute* node_view::find(const std::string& attribute_name) const {
  for (const auto& a : is.attributes)
    if (a.name == attribute_name) return &a;
  return nullptr;
}

std::int64_t node_view::integer(const std::string& attribute_name, std::int64_t otherwise) const {
  const auto* a = find(attribute_name);
  const auto v = a ? a->integer : otherwise;
  if (v < -most_values_of_example || v > most_values_of_example)
    throw refusal("attribute '" + attribute_name + "' is " + std::to_string(v));
  return v;
}
double node_view::real(const std::string& attribute_name, double otherwise) const {
  const auto* a = find(attribute_name);
  if (!a) return otherwise;
  return decimal_of(a->real);
}
std::string node_view::text(const std::string& attribute_name, const std::string& otherwise) const {
  const auto* a = find(attribute_name);
  return a ? a->text : otherwise;
}
extents node_view::integers(const std::string& attribute_name) const {
  const auto* a = find(attribute_name);
  if (!a) return {};
  for (const auto v : a->integers)
    if (v < -most_values_of_example || v > most_values_of_example)
      throw refusal("attribute '" + attribute_name + "' has " + std::to_string(v));
  return a->integers;
}

const graph_value& node_view::input(std::size_t k) const {
  if (!given(k)) throw refusal("input " + std::to_string(k) + " is absent");
  const auto found = to.values.find(is.inputs[k]);
  if (found != to.values.end()) return found->second;
  const auto missing = to.not_given.find(is.inputs[k]);
  throw refusal(missing == to.not_given.end() ? "it reads " + in_quotes(is.inputs[k]) + ", which no node before it computes"
                                              : "it reads " + in_quotes(is.inputs[k]) + ", an output of " + missing->second +
                                                    " that Troupe does not compute");
}

const activation& node_view::scores(std::size_t k) const {
  if (constant_at(k)) throw refusal("input " + std::to_string(k) + " is a constant, which is not supported there");
  return std::get<activation>(input(k));
}

const activation& node_view::view(std::size_t k) const {
  const auto& x = scores(k);
  if (x.causal) throw refusal("input " + std::to_string(k) + " has masked columns, which only a Softmax may read");
  return x;
}

const activation& node_view::active(std::size_t k) const {
  const auto& x = view(k);
  if (!x.joined.empty())
    throw refusal("input " + std::to_string(k) + " is " + text_of(x.shown()) +
                  ", whose batch is joined with other axes: only Reshape, Transpose, MatMul, Gemm, Softmax, LayerNormalization and "
                  "operators of single values may read it; put the batch in front before this node, as [N, heads, T, values]");
  return x;
}

const tensor_value& node_view::reals(std::size_t k, const std::string& what) const {
  if (!constant_at(k)) throw refusal("its " + what + " must be a constant");
  const auto& t = *std::get<constant>(input(k));
  if (!is_real(t.type)) throw refusal("its " + what + " is of type " + element_name(t.type) + " instead of FLOAT");
  return t;
}

std::vector<float> node_view::reals_of(std::size_t k, const std::string& what, std::int64_t count) const {
  const auto& t = reals(k, what);
  if (t.count() != count)
    throw refusal("its " + what + " has " + std::to_string(t.count()) + " values, " + std::to_string(count) + " are needed");
  std::vector<float> all(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = t.real(i);
  return all;
}

extents node_view::wholes(std::size_t k, const std::string& what) const {
  if (!constant_at(k)) throw refusal("its " + what + " must be a constant");
  const auto& t = *std::get<constant>(input(k));
  if (is_real(t.type)) throw refusal("its " + what + " must be whole numbers");
  if (t.count() > (1 << 24)) throw refusal("its " + what + " has too many values");
  extents all;
  for (std::int64_t i = 0; i < t.count(); ++i) all.push_back(t.integer(i));
  return all;
}

extents node_view::list(const std::string& attribute_name, std::size_t k) const {
  if (has(attribute_name)) return integers(attribute_name);
  return given(k) ? wholes(k, attribute_name) : extents();
}

std::int64_t node_view::axis(std::int64_t given_axis, std::size_t rank) const {
  const auto r = static_cast<std::int64_t>(rank);
  if (given_axis < -r || given_axis >= r)
    throw refusal("there is no axis " + std::to_string(given_axis) + " of " + std::to_string(r));
  return given_axis < 0 ? given_axis + r : given_axis;
}

std::string node_view::name() const {
  if (!is.name.empty()) return is.name;
  return is.outputs.empty() || is.outputs[0].empty() ? is.op : is.op + "_" + is.outputs[0];
}

void node_view::result(activation x, std::size_t k) const {
  if (k < is.outputs.size() && !is.outputs[k].empty()) to.values.insert_or_assign(is.outputs[k], graph_value(std::move(x)));
}
void node_view::result(tensor_value t) const {
  if (!is.outputs.empty())
    to.values.insert_or_assign(is.outputs[0], graph_value(std::make_shared<const tensor_value>(std::move(t))));
}

bool node_view::read(std::size_t output_index) const {
  return output_index < is.outputs.size() && !is.outputs[output_index].empty() && to.readers.contains(is.outputs[output_index]);
}

tensor kept_weights::keep(const shape& dims, std::vector<float> values) {
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  const auto hash = std::hash<std::string_view>()(bytes);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto at = begin; at != end; ++at)
    if (at->second.dims() == dims && std::memcmp(at->second.raw(), bytes.data(), bytes.size()) == 0) return at->second;
  const auto kept = std::make_shared<const std::vector<float>>(std::move(values));
  return by_hash_.emplace(hash, tensor::adopt(kept, kept->data(), dims, dtype::f32))->second;
}

}  // namespace troupe::onnx
