// Fuzz target: ONNX models, read and imported as jobs. The values in other files are those of the
// input itself.
#include "runtime/node/models/onnx/onnx_import.hpp"

#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_onnx_model(input in) {
  const auto m = onnx::parse_model(in, [&](const std::string&) -> expected<std::span<const std::uint8_t>> { return in; });
  if (!m) return must(!m.error().text.empty(), "refused without a reason");
  for (const auto& t : m->graph.initializers)
    must(t.count() == static_cast<std::int64_t>(t.reals.size() + t.whole.size()), "a tensor has not the values of its extents");
  const auto made = onnx::import_graph(*m, "fuzz.onnx");
  if (!made) return must(!made.error().empty() && !made.error()[0].message.empty(), "refused without a reason");
  must(!made->job.empty(), "a model became no job");
}

onnx::value_info value_of(const std::string& name, std::vector<std::int64_t> dims) {
  onnx::value_info v;
  v.name = name, v.type = onnx::float32, v.shaped = true;
  for (const auto e : dims) v.dims.push_back({e, "N"});
  return v;
}

onnx::node node_of(const std::string& op, std::vector<std::string> inputs, const std::string& output) {
  onnx::node n;
  n.name = n.op = op, n.inputs = std::move(inputs), n.outputs = {output};
  return n;
}

onnx::tensor_value weights_of(const std::string& name, std::vector<std::int64_t> dims, float value) {
  onnx::tensor_value t;
  t.name = name, t.dims = std::move(dims);
  t.reals.assign(static_cast<std::size_t>(t.count()), value);
  return t;
}

onnx::tensor_value numbers_of(const std::string& name, std::vector<std::int64_t> numbers) {
  onnx::tensor_value t;
  t.name = name, t.type = onnx::int64, t.dims = {static_cast<std::int64_t>(numbers.size())}, t.whole = std::move(numbers);
  return t;
}

onnx::attribute list_attribute(const std::string& name, std::vector<std::int64_t> v) {
  onnx::attribute a;
  a.name = name, a.kind = static_cast<std::int32_t>(onnx::attribute_kind::integers), a.integers = std::move(v);
  return a;
}

std::string bytes_of_model(onnx::graph g, std::int64_t opset) {
  onnx::model m;
  m.ir_version = 7, m.opset = opset, m.producer = "fuzz", m.graph = std::move(g);
  return *onnx::model_bytes(m);
}

std::string image_net() {
  onnx::graph g;
  g.inputs = {value_of("x", {-1, 1, 4, 4})}, g.outputs = {value_of("y", {-1, 2})};
  g.initializers = {weights_of("w", {2, 1, 3, 3}, 0.5F), weights_of("v", {2, 8}, 0.25F), weights_of("b", {2}, 1.0F)};
  g.nodes = {node_of("Conv", {"x", "w", "b"}, "c"), node_of("Relu", {"c"}, "r"), node_of("MaxPool", {"r"}, "p"),
             node_of("Flatten", {"r"}, "f"), node_of("Gemm", {"f", "v", "b"}, "y")};
  g.nodes[0].attributes = {list_attribute("pads", {0, 0, 0, 0})};
  g.nodes[2].attributes = {list_attribute("kernel_shape", {2, 2})};
  onnx::attribute turned;
  turned.name = "transB", turned.kind = static_cast<std::int32_t>(onnx::attribute_kind::integer), turned.integer = 1;
  g.nodes[4].attributes = {turned};
  return bytes_of_model(std::move(g), 13);
}

// Shapes that the graph computes, a composed GELU, and a product.
std::string sequence_net() {
  onnx::graph g;
  g.inputs = {value_of("x", {-1, 3, 2})}, g.outputs = {value_of("y", {-1, 6})};
  g.initializers = {weights_of("w", {2, 2}, 0.5F), weights_of("b", {2}, 1.0F),         weights_of("half", {}, 0.5F),
                    weights_of("one", {}, 1.0F),   weights_of("root", {}, 1.4142135F), numbers_of("zero", {0}),
                    numbers_of("rest", {-1})};
  g.nodes = {node_of("MatMul", {"x", "w"}, "m"),        node_of("Add", {"m", "b"}, "s"),
             node_of("Div", {"s", "root"}, "d"),        node_of("Erf", {"d"}, "e"),
             node_of("Add", {"e", "one"}, "o"),         node_of("Mul", {"s", "o"}, "h"),
             node_of("Mul", {"h", "half"}, "g"),        node_of("Shape", {"g"}, "shape"),
             node_of("Gather", {"shape", "zero"}, "n"), node_of("Concat", {"n", "rest"}, "t"),
             node_of("Reshape", {"g", "t"}, "y")};
  g.nodes[9].attributes.emplace_back().name = "axis";
  return bytes_of_model(std::move(g), 13);
}

std::string recurrent_net() {
  onnx::graph g;
  g.inputs = {value_of("x", {-1, 3, 2})}, g.outputs = {value_of("y", {-1, 4})};
  g.initializers = {weights_of("w", {1, 16, 2}, 0.5F), weights_of("r", {1, 16, 4}, 0.1F), weights_of("b", {1, 32}, 0.2F),
                    numbers_of("axes", {0})};
  g.nodes = {node_of("Transpose", {"x"}, "t"), node_of("LSTM", {"t", "w", "r", "b"}, ""), node_of("Squeeze", {"h", "axes"}, "y")};
  g.nodes[0].attributes = {list_attribute("perm", {1, 0, 2})};
  g.nodes[1].outputs = {"", "h"};
  return bytes_of_model(std::move(g), 14);
}

std::vector<std::string> sound_onnx() { return {image_net(), sequence_net(), recurrent_net()}; }

const entry onnx_entry({"onnx", read_onnx_model, sound_onnx});

}  // namespace
}  // namespace troupe::fuzz
