// Activations, element-wise operations, and parameters by channel.
#include <cmath>
#include <numbers>

#include "runtime/node/models/onnx/layer_writer.hpp"

namespace troupe::onnx {
namespace {

expected<void> export_relu(layer_writer& w) {
  const auto slope = w.given().real("slope");
  if (slope == 0.0)
    w.add(part::whole, "Relu", {w.input()});
  else
    w.add(part::whole, "LeakyRelu", {w.input()}, {attribute_of("alpha", slope)});
  return {};
}

expected<void> export_relu6(layer_writer& w) {
  w.add(part::whole, "Clip", {w.input(), w.scalar("min", 0.0), w.scalar("max", w.given().real("max"))});
  return {};
}
std::string hard_sigmoid_of(layer_writer& w, part p, double slope) {
  return w.add(p, "HardSigmoid", {w.input()}, {attribute_of("alpha", slope), attribute_of("beta", 0.5)});
}
expected<void> export_hard_sigmoid(layer_writer& w) {
  hard_sigmoid_of(w, part::whole, w.given().real("slope"));
  return {};
}
expected<void> export_hard_swish(layer_writer& w) {
  w.add(part::whole, "Mul", {w.input(), hard_sigmoid_of(w, part::inner, 1.0 / 6)});
  return {};
}
expected<void> export_silu(layer_writer& w) {
  w.add(part::whole, "Mul", {w.input(), w.add(part::inner, "Sigmoid", {w.input()})});
  return {};
}
// The numbers as [N, C, 1, ...], which broadcast.
expected<void> export_channel_scale(layer_writer& w) {
  auto numbers = w.input(1);
  if (w.in(1).rank() != w.in().rank()) {
    std::vector<std::int64_t> dims(static_cast<std::size_t>(w.in().rank()), 1);
    dims[0] = dims[1] = 0;  // as they are
    numbers = w.add(part::inner, "Reshape", {numbers, w.integers("shape", dims)});
  }
  w.add(part::whole, "Mul", {w.input(), numbers});
  return {};
}
expected<void> export_elu(layer_writer& w) {
  w.add(part::whole, "Elu", {w.input()}, {attribute_of("alpha", w.given().real("alpha"))});
  return {};
}
expected<void> export_sigmoid(layer_writer& w) {
  w.add(part::whole, "Sigmoid", {w.input()});
  return {};
}
expected<void> export_tanh(layer_writer& w) {
  w.add(part::whole, "Tanh", {w.input()});
  return {};
}

// x / 2 (1 + erf(x / sqrt 2)), or x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x x x))).
expected<void> export_gelu(layer_writer& w) {
  const auto x = w.input();
  std::string f;
  if (w.given().text("approximate") == "tanh") {
    const auto cube = w.add(part::inner, "Mul", {x, w.add(part::inner, "Mul", {x, x})});
    const auto sum = w.add(part::inner, "Add", {x, w.add(part::inner, "Mul", {cube, w.scalar("cubic", 0.044715)})});
    f = w.add(part::inner, "Tanh", {w.add(part::inner, "Mul", {sum, w.scalar("root", std::sqrt(2 / std::numbers::pi))})});
  } else {
    f = w.add(part::inner, "Erf", {w.add(part::inner, "Div", {x, w.scalar("root", std::numbers::sqrt2)})});
  }
  const auto half = w.add(part::inner, "Mul", {x, w.scalar("half", 0.5)});
  w.add(part::whole, "Mul", {half, w.add(part::inner, "Add", {f, w.scalar("one", 1.0)})});
  return {};
}

// [C, 1, ...], which broadcasts to [N, C, ...].
std::vector<std::int64_t> by_channel(const shape& x) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.rank() - 1), 1);
  dims[0] = x[1];
  return dims;
}

expected<void> export_prelu(layer_writer& w) {
  const auto dims = w.given().flag("shared") ? std::vector<std::int64_t>{1} : by_channel(w.in());
  w.add(part::whole, "PRelu", {w.input(), w.weight("slope", dims)});
  return {};
}

expected<void> export_scale(layer_writer& w) {
  const bool bias = w.has("bias");
  const auto y = w.add(bias ? part::main : part::whole, "Mul", {w.input(), w.weight("weight", by_channel(w.in()))});
  if (bias) w.add(part::last, "Add", {y, w.weight("bias", by_channel(w.in()))});
  return {};
}

expected<void> export_bias(layer_writer& w) {
  w.add(part::whole, "Add", {w.input(), w.weight("bias", by_channel(w.in()))});
  return {};
}

expected<void> export_eltwise(layer_writer& w) {
  const auto& operation = w.given().text("operation");
  const auto& coeffs = w.given().get<std::vector<double>>("coeffs");
  std::vector<std::string> inputs;
  for (std::size_t k = 0; k < w.layer().inputs.size(); ++k) {
    inputs.push_back(w.input(k));
    if (!coeffs.empty() && coeffs[k] != 1.0)
      inputs[k] = w.add(part::inner, "Mul", {inputs[k], w.scalar("coeff" + std::to_string(k), coeffs[k])});
  }
  if (operation != "prod") {
    w.add(part::whole, operation == "sum" ? "Sum" : "Max", inputs);
    return {};
  }
  if (inputs.size() == 1) {
    w.add(part::whole, "Identity", inputs);
    return {};
  }
  for (std::size_t k = 1; k < inputs.size(); ++k)
    inputs[0] = w.add(k + 1 == inputs.size() ? part::whole : part::inner, "Mul", {inputs[0], inputs[k]});
  return {};
}

expected<void> export_dropout(layer_writer& w) {
  w.add(part::whole, "Dropout", {w.input(), w.scalar("ratio", w.given().real("ratio"))});
  return {};
}

}  // namespace

layer_exports element_exports() {
  return {{"relu", export_relu},
          {"elu", export_elu},
          {"sigmoid", export_sigmoid},
          {"tanh", export_tanh},
          {"gelu", export_gelu},
          {"prelu", export_prelu},
          {"scale", export_scale},
          {"bias", export_bias},
          {"relu6", export_relu6},
          {"silu", export_silu},
          {"hard_sigmoid", export_hard_sigmoid},
          {"hard_swish", export_hard_swish},
          {"channel_scale", export_channel_scale},
          {"dropout", export_dropout},
          {"eltwise", export_eltwise}};
}

}  // namespace troupe::onnx
