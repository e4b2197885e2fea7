// Layers whose main part is a product with a matrix: linear, embedding and the recurrent ones.
#include <numeric>

#include "runtime/node/models/onnx/layer_writer.hpp"

namespace troupe::onnx {
namespace {

// x with the axes from `axis` on as one: several are merged, and for none there is one of extent 1.
std::string merged_from(layer_writer& w, int axis) {
  if (w.in().rank() == axis + 1) return w.input();
  if (w.in().rank() == axis) return w.add(part::inner, "Unsqueeze", {w.input(), w.integers("axes", {axis})});
  if (axis == 1) return w.add(part::inner, "Flatten", {w.input()}, {attribute_of("axis", std::int64_t{1})});
  std::vector<std::int64_t> to(static_cast<std::size_t>(axis), 0);  // 0: as it is
  to.push_back(w.in().count_from(axis));
  return w.add(part::inner, "Reshape", {w.input(), w.integers("extents", to)});
}

expected<void> export_linear(layer_writer& w) {
  const auto axis = static_cast<int>(w.given().integer("axis"));
  const bool bias = w.has("bias");
  const auto x = merged_from(w, axis);
  if (axis == 1) {
    std::vector<std::string> inputs{x, w.weight("weight")};
    if (bias) inputs.push_back(w.weight("bias"));
    w.add(part::whole, "Gemm", inputs, {attribute_of("transB", std::int64_t{1})});
    return {};
  }
  const auto turned = w.add(part::inner, "Transpose", {w.weight("weight")}, {list_of("perm", {1, 0})});
  const auto y = w.add(bias ? part::main : part::whole, "MatMul", {x, turned});
  if (bias) w.add(part::last, "Add", {y, w.weight("bias")});
  return {};
}

// A negative id counts from the end in ONNX; in Troupe it is padding, and its row is zero.
expected<void> export_embedding(layer_writer& w) {
  const auto ids = w.input(), zero = w.integers("zero", {0});
  const auto rows = w.add(part::inner, "Gather", {w.weight("weight"), w.add(part::inner, "Max", {ids, zero})},
                          {attribute_of("axis", std::int64_t{0})});
  const auto padding = w.add(part::inner, "Less", {ids, zero});
  const auto each = w.add(part::inner, "Unsqueeze", {padding, w.integers("axes", {w.in().rank()})});
  w.add(part::whole, "Where", {each, w.scalar("none", 0.0), rows});
  return {};
}

// MatMul of the last two axes; a transposed factor is written with these axes exchanged.
expected<void> export_matmul(layer_writer& w) {
  std::vector<std::int64_t> exchanged(static_cast<std::size_t>(w.in().rank()));
  std::iota(exchanged.begin(), exchanged.end(), 0);
  std::swap(exchanged[exchanged.size() - 2], exchanged.back());
  const auto factor = [&](std::size_t k, const char* transposed) {
    if (!w.given().flag(transposed)) return w.input(k);
    return w.add(part::inner, "Transpose", {w.input(k)}, {list_of("perm", exchanged)});
  };
  const auto a = factor(0, "transpose_a"), b = factor(1, "transpose_b");
  const double scale = w.given().real("scale");
  const auto y = w.add(scale == 1.0 ? part::whole : part::main, "MatMul", {a, b});
  if (scale != 1.0) w.add(part::last, "Mul", {y, w.scalar("scale", scale)});
  return {};
}

// ONNX's order of gates, as blocks of Troupe's.
struct recurrent_op {
  const char* op;
  std::vector<std::int64_t> gates;
};
recurrent_op recurrent_op_of(const std::string& type) {
  if (type == "lstm") return {"LSTM", {0, 3, 1, 2}};  // i o f c of i f g o
  if (type == "gru") return {"GRU", {1, 0, 2}};       // z r h of r z n
  return {"RNN", {0}};
}

// The rows of a parameter with its blocks of `units` rows in another order.
std::vector<float> in_order(const std::vector<float>& values, const std::vector<std::int64_t>& blocks) {
  const auto block = static_cast<std::ptrdiff_t>(values.size() / blocks.size());
  std::vector<float> ordered;
  for (const auto b : blocks) ordered.insert(ordered.end(), values.begin() + b * block, values.begin() + (b + 1) * block);
  return ordered;
}

expected<void> export_recurrent(layer_writer& w) {
  const auto& type = w.layer().type;
  const auto [op, gates] = recurrent_op_of(type);
  const auto units = w.given().integer("units"), rows = units * static_cast<std::int64_t>(gates.size()),
             width = w.in().count_from(2);
  const auto turned = [](std::vector<std::int64_t> perm) { return attributes{list_of("perm", std::move(perm))}; };
  const auto x = w.add(part::inner, "Transpose", {merged_from(w, 2)}, turned({1, 0, 2}));
  std::vector<std::string> inputs{x, w.reals("weight_ih", {1, rows, width}, in_order(w.weight_values("weight_ih"), gates)),
                                  w.reals("weight_hh", {1, rows, units}, in_order(w.weight_values("weight_hh"), gates))};
  if (w.has("bias_ih")) {
    auto both = in_order(w.weight_values("bias_ih"), gates);
    const auto hidden = in_order(w.weight_values("bias_hh"), gates);
    both.insert(both.end(), hidden.begin(), hidden.end());
    inputs.push_back(w.reals("bias", {1, 2 * rows}, std::move(both)));
  }
  attributes with{attribute_of("hidden_size", units)};
  if (type == "gru") with.push_back(attribute_of("linear_before_reset", std::int64_t{1}));
  if (type == "rnn")
    with.push_back(words_of("activations", std::vector<std::string>{w.given().text("activation") == "relu" ? "Relu" : "Tanh"}));
  const auto y = w.add(part::main, op, inputs, std::move(with));
  const auto squeezed = w.add(part::inner, "Squeeze", {y, w.integers("direction", {1})});
  w.add(part::last, "Transpose", {squeezed}, turned({1, 0, 2}));
  return {};
}

}  // namespace

layer_exports dense_exports() {
  return {{"linear", export_linear},  {"embedding", export_embedding}, {"matmul", export_matmul},
          {"lstm", export_recurrent}, {"gru", export_recurrent},       {"rnn", export_recurrent}};
}

}  // namespace troupe::onnx
