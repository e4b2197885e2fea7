// Activations and element-wise operations.
#include <algorithm>
#include <functional>

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {
namespace {

// A layer that computes each element by itself: ONNX's axes are those of its input.
void element_layer(const node_view& n, const char* type, options_given given = {}) {
  auto x = n.active(0);
  const auto view = x;
  x = activation_of(x.tensor, x.dims);
  auto y = n.layer(type, {x}, std::move(given));
  y.merged = view.merged, y.axes = view.axes;
  n.result(y);
}

void take_relu(const node_view& n) { element_layer(n, "relu"); }
void take_leaky_relu(const node_view& n) { element_layer(n, "relu", {{"slope", n.real("alpha", 0.01)}}); }
void take_elu(const node_view& n) { element_layer(n, "elu", {{"alpha", n.real("alpha", 1.0)}}); }
void take_sigmoid(const node_view& n) { element_layer(n, "sigmoid"); }
void take_tanh(const node_view& n) { element_layer(n, "tanh"); }
void take_gelu(const node_view& n) { element_layer(n, "gelu"); }
void take_gelu_tanh(const node_view& n) { element_layer(n, "gelu", {{"approximate", std::string("tanh")}}); }

void take_neg(const node_view& n) { element_layer(n, "eltwise", {{"coeffs", std::vector<double>{-1.0}}}); }

void take_dropout(const node_view& n) {
  if (n.read(1)) throw refusal("its second output, the mask, is not supported");
  double ratio = n.real("ratio", 0.5);
  if (n.given(1)) {
    const auto& t = n.reals(1, "ratio");
    if (t.count() != 1) throw refusal("its ratio is not one number");
    ratio = decimal_of(t.real(0));
  }
  if (n.given(2) && n.wholes(2, "training_mode") != extents{0})
    throw refusal("it drops in training mode: export the model for inference");
  element_layer(n, "dropout", {{"ratio", ratio}});
}

// The values of a constant by channel (axis 1) of x, if it has one value or one for each channel.
std::optional<std::vector<float>> by_channel_of(const tensor_value& t, const extents& x) {
  if (x.size() < 2 || t.dims.size() > x.size()) return std::nullopt;
  const auto channels = x[1];
  const auto shift = x.size() - t.dims.size();
  for (std::size_t a = 0; a < t.dims.size(); ++a)
    if (t.dims[a] != 1 && (a + shift != 1 || t.dims[a] != channels)) return std::nullopt;
  std::vector<float> values(static_cast<std::size_t>(channels));
  for (std::int64_t c = 0; c < channels; ++c) values[static_cast<std::size_t>(c)] = t.real(t.count() == 1 ? 0 : c);
  return values;
}

void take_prelu(const node_view& n) {
  const auto& slope = n.reals(1, "slopes");
  const auto x = n.plain(0);
  if (slope.count() == 1) return n.result(n.layer("prelu", {x}, {{"shared", true}}, {{slope.real(0)}}));
  auto values = by_channel_of(slope, x.dims);
  if (!values) throw refusal("its slopes are " + text_of(slope.dims) + "; one, or one by channel is supported");
  n.result(n.layer("prelu", {x}, {}, {*std::move(values)}));
}

// --- two operands

enum class operation : std::uint8_t { add, subtract, multiply, divide };

// The last two axes of t are a square with `open` on and below the diagonal and `masked` above it;
// the others are 1.
template <class Open, class Masked>
bool is_causal(const tensor_value& t, Open open, Masked masked) {
  const auto rank = t.dims.size();
  if (rank < 2 || t.uniform || t.dims[rank - 1] != t.dims[rank - 2] || t.count() != t.dims[rank - 1] * t.dims[rank - 1])
    return false;
  const auto steps = t.dims[rank - 1];
  for (std::int64_t row = 0; row < steps; ++row)
    for (std::int64_t column = 0; column < steps; ++column)
      if (const auto k = row * steps + column; column > row ? !masked(k) : !open(k)) return false;
  return true;
}

bool hides(float v) { return v <= -1e4F; }  // exp is 0 beside any score of a row

// x with the columns behind the diagonal masked, if that fits its extents.
std::optional<activation> masked_by(const activation& x, const tensor_value& t) {
  const auto shown = x.shown();
  const auto rank = shown.size();
  if (rank < 3 || t.dims.size() > rank || shown[rank - 1] != t.dims.back() || shown[rank - 2] != t.dims.back()) return std::nullopt;
  auto y = x;
  y.causal = true;
  return y;
}

// Scores where the constant condition allows it, and a very low number elsewhere.
void take_where(const node_view& n) {
  const bool first = n.constant_at(1);
  if (n.constant_at(0) && n.constant_at(first ? 1 : 2)) {
    const auto& condition = *std::get<constant>(n.input(0));
    const auto& low = n.reals(first ? 1 : 2, "masked value");
    const auto& x = n.active(first ? 2 : 1);
    const auto is = [&](bool wanted) {
      return [&condition, wanted](std::int64_t k) { return (condition.integer(k) != 0) == wanted; };
    };
    if (!is_real(condition.type) && low.count() == 1 && hides(low.real(0)) && is_causal(condition, is(!first), is(first)))
      if (auto y = masked_by(x, condition)) return n.result(*std::move(y));
  }
  throw refusal("only a mask of the columns behind the diagonal of square matrices, by a constant, is supported");
}

// A value for each place of an example: a layer between two reshapes.
void by_place(const node_view& n, const activation& x, const char* type, const std::vector<float>& values) {
  const auto row = reshaped_by_layer(n.to, n.name() + "_row", x, {x.dims[0], product(x.dims, 1)});
  const auto y = n.layer(type, {plain_of(n.to, row)}, {}, {values});
  n.result(reshaped_by_layer(n.to, n.name() + "_shape", y, x.dims));
}

// True if the constant has the extents of an example of x, with axes of extent 1 in front or not.
bool of_example(const tensor_value& c, const extents& x) {
  auto dims = c.dims;
  while (dims.size() >= x.size() && !dims.empty() && dims[0] == 1) dims.erase(dims.begin());
  return dims.size() > 1 && dims.size() + 1 == x.size() && std::equal(dims.begin(), dims.end(), x.begin() + 1);
}

// Layers for x op c, or c op x if `reversed`.
void with_constant(const node_view& n, operation op, const activation& given_x, const tensor_value& c, bool reversed) {
  const bool sum = op == operation::add || op == operation::subtract;
  if (op == operation::add && is_real(c.type) &&
      is_causal(
          c, [&](std::int64_t k) { return c.real(k) == 0.0F; }, [&](std::int64_t k) { return hides(c.real(k)); }) &&
      c.dims.back() > 1)
    if (auto y = masked_by(given_x, c)) return n.result(*std::move(y));
  auto x = plain_of(n.to, given_x);
  if (reversed && op == operation::divide) throw refusal("a constant divided by a tensor is not supported");
  if (reversed && op == operation::subtract)
    x = add_layer(n.to, n.name() + "_negated", "eltwise", {x}, {{"coeffs", std::vector<double>{-1.0}}})[0];
  auto values = by_channel_of(c, x.dims);
  const bool placed = !values && (op == operation::add || op == operation::multiply) && of_example(c, x.dims);
  if (placed) {
    std::vector<float> all(static_cast<std::size_t>(c.count()));
    for (std::int64_t k = 0; k < c.count(); ++k) all[static_cast<std::size_t>(k)] = c.real(k);
    return by_place(n, x, sum ? "bias" : "scale", all);
  }
  if (!values || product(c.dims) > static_cast<std::int64_t>(values->size()))
    throw refusal("a constant of " + text_of(c.dims) + " with a tensor of " + text_of(x.dims) +
                  "; one value, or one by channel (axis 1) is supported");
  if (op == operation::subtract && !reversed)
    for (auto& v : *values) v = -v;
  if (op == operation::divide)
    for (auto& v : *values) v = 1.0F / v;
  if (sum) return n.result(n.layer("bias", {x}, {}, {*std::move(values)}));
  if (c.count() > 1) return n.result(n.layer("scale", {x}, {}, {*std::move(values)}));
  n.result(n.layer("eltwise", {x}, {{"coeffs", std::vector<double>{decimal_of((*values)[0])}}}));
}

// A layer eltwise of all inputs, which have one shape.
void all_inputs(const node_view& n, options_given given) {
  std::vector<activation> in;
  for (std::size_t k = 0; k < n.is.inputs.size(); ++k) in.push_back(n.active(k));
  if (in.empty()) throw refusal("it has no inputs");
  const auto view = in[0];
  const bool alike = std::all_of(in.begin(), in.end(), [&](const activation& x) {
    return x.dims == view.dims && x.axes == view.axes && x.merged == view.merged;
  });
  for (auto& x : in) {
    if (!alike) x = plain_of(n.to, x);
    if (x.shown() != (alike ? view.shown() : in[0].shown()))
      throw refusal("its inputs are " + text_of(in[0].shown()) + " and " + text_of(x.shown()) +
                    "; only equal extents are supported");
    if (alike) x = activation_of(x.tensor, x.dims);
  }
  auto y = n.layer("eltwise", in, std::move(given));
  if (alike) y.merged = view.merged, y.axes = view.axes;
  n.result(y);
}

void two_operands(const node_view& n, operation op) {
  if (n.is.inputs.size() != 2) throw refusal("it has " + std::to_string(n.is.inputs.size()) + " inputs instead of 2");
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}})
    if (n.constant_at(k)) return with_constant(n, op, n.active(1 - k), n.reals(k, "constant"), k == 0);
  if (op == operation::divide) throw refusal("only a constant divisor is supported");
  options_given o;
  if (op == operation::multiply) o["operation"] = std::string("prod");
  if (op == operation::subtract) o["coeffs"] = std::vector<double>{1.0, -1.0};
  all_inputs(n, std::move(o));
}

void take_add(const node_view& n) { two_operands(n, operation::add); }
void take_sub(const node_view& n) { two_operands(n, operation::subtract); }
void take_mul(const node_view& n) { two_operands(n, operation::multiply); }
void take_div(const node_view& n) { two_operands(n, operation::divide); }
void take_sum(const node_view& n) { all_inputs(n, {}); }
void take_max(const node_view& n) { all_inputs(n, {{"operation", std::string("max")}}); }

}  // namespace

handlers element_handlers() {
  return {{"Relu", take_relu},       {"LeakyRelu", take_leaky_relu},
          {"Elu", take_elu},         {"Sigmoid", take_sigmoid},
          {"Tanh", take_tanh},       {"Gelu", take_gelu},
          {"PRelu", take_prelu},     {"GeluTanh", take_gelu_tanh},
          {"Dropout", take_dropout}, {"Add", take_add},
          {"Sub", take_sub},         {"Mul", take_mul},
          {"Div", take_div},         {"Sum", take_sum},
          {"Max", take_max},         {"Neg", take_neg},
          {"Where", take_where}};
}

}  // namespace troupe::onnx
