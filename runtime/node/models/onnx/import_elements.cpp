// Activations, and other functions of each element by itself.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {

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

namespace {

// A layer that computes each element by itself: ONNX's axes are those of its input.
void element_layer(const node_view& n, const char* type, options_given given = {}) {
  const auto& x = n.view(0);
  n.result(seen_as(n.layer(type, {activation_of(x.tensor, x.dims)}, std::move(given)), x));
}

void take_relu(const node_view& n) { element_layer(n, "relu"); }
void take_leaky_relu(const node_view& n) { element_layer(n, "relu", {{"slope", n.real("alpha", 0.01)}}); }
void take_elu(const node_view& n) { element_layer(n, "elu", {{"alpha", n.real("alpha", 1.0)}}); }
void take_sigmoid(const node_view& n) { element_layer(n, "sigmoid"); }
void take_tanh(const node_view& n) { element_layer(n, "tanh"); }
void take_gelu(const node_view& n) { element_layer(n, "gelu"); }
void take_gelu_tanh(const node_view& n) { element_layer(n, "gelu", {{"approximate", std::string("tanh")}}); }

void take_silu(const node_view& n) { element_layer(n, "silu"); }
void take_hard_swish(const node_view& n) { element_layer(n, "hard_swish"); }
void take_hard_sigmoid(const node_view& n) {
  if (const auto beta = n.real("beta", 0.5); beta != 0.5) throw refusal("its beta must be 0.5, as in Troupe's hard_sigmoid");
  element_layer(n, "hard_sigmoid", {{"slope", n.real("alpha", 0.2)}});
}

// A bound of a Clip: an attribute, since operator set 11 an input. Absent or infinite: none.
std::optional<double> bound_of(const node_view& n, const char* name, std::size_t k) {
  float v = 0;
  if (const auto* a = n.find(name)) {
    v = a->real;
  } else if (n.given(k)) {
    const auto& t = n.reals(k, "bounds");
    if (t.count() != 1) throw refusal("its bounds are not one number each");
    v = t.real(0);
  } else {
    return std::nullopt;
  }
  if (!(std::abs(v) < std::numeric_limits<float>::max())) return std::nullopt;
  return decimal_of(v);
}

// min(x, high) = high - max(high - x, 0).
void clip_above(const node_view& n, double high) {
  const auto x = n.plain(0);
  if (x.dims.size() < 2) throw refusal("its input has no channels");
  const std::vector<float> bound(static_cast<std::size_t>(x.dims[1]), static_cast<float>(high));
  const options_given negative{{"coeffs", std::vector<double>{-1.0}}};
  auto y = add_layer(n.to, n.name() + "_negated", "eltwise", {x}, negative)[0];
  y = add_layer(n.to, n.name() + "_from_bound", "bias", {y}, {}, {bound})[0];
  y = add_layer(n.to, n.name() + "_bounded", "relu", {y})[0];
  y = add_layer(n.to, n.name() + "_below_bound", "eltwise", {y}, negative)[0];
  n.result(n.layer("bias", {y}, {}, {bound}));
}

// min(max(x, low), high): relu6 between two sums, or relu.
void take_clip(const node_view& n) {
  const auto low = bound_of(n, "min", 1), high = bound_of(n, "max", 2);
  if (!low && !high) return n.result(n.view(0));
  if (!low) return clip_above(n, *high);
  if (high && *high < *low) throw refusal("its maximum is below its minimum");
  const auto bounded = [&](double most) { return options_given{{"max", most}}; };
  if (*low == 0) return high ? element_layer(n, "relu6", bounded(*high)) : element_layer(n, "relu");
  const auto x = n.plain(0);
  if (x.dims.size() < 2) throw refusal("its input has no channels");
  const std::vector<float> up(static_cast<std::size_t>(x.dims[1]), static_cast<float>(*low));
  auto down = up;
  for (auto& v : down) v = -v;
  auto y = add_layer(n.to, n.name() + "_from_0", "bias", {x}, {}, {down})[0];
  y = add_layer(n.to, n.name() + "_bounded", high ? "relu6" : "relu", {y}, high ? bounded(*high - *low) : options_given{})[0];
  n.result(n.layer("bias", {y}, {}, {up}));
}

// Gelu as an operator, since set 20.
void take_gelu_operator(const node_view& n) {
  if (n.text("approximate", "none") == "tanh") return take_gelu_tanh(n);
  take_gelu(n);
}

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

void take_prelu(const node_view& n) {
  const auto& slope = n.reals(1, "slopes");
  const auto x = n.plain(0);
  if (slope.count() == 1) return n.result(n.layer("prelu", {x}, {{"shared", true}}, {{slope.real(0)}}));
  auto values = by_channel_of(slope, x.dims);
  if (!values) throw refusal("its slopes are " + text_of(slope.dims) + "; one, or one by channel is supported");
  n.result(n.layer("prelu", {x}, {}, {*std::move(values)}));
}

}  // namespace

handlers element_handlers() {
  return {{"Relu", take_relu},
          {"LeakyRelu", take_leaky_relu},
          {"Elu", take_elu},
          {"Sigmoid", take_sigmoid},
          {"Tanh", take_tanh},
          {"Gelu", take_gelu_operator},
          {"GeluTanh", take_gelu_tanh},
          {"Silu", take_silu},
          {"HardSigmoid", take_hard_sigmoid},
          {"HardSwish", take_hard_swish},
          {"Clip", take_clip},
          {"PRelu", take_prelu},
          {"Dropout", take_dropout},
          {"Neg", take_neg}};
}

}  // namespace troupe::onnx
