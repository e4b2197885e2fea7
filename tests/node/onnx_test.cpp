// ONNX: what the reader refuses, what an import and an export name in their errors, and the job of
// an imported net. Values are compared with an evaluator and PyTorch in tests/interop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <protozero/pbf_writer.hpp>

#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/models/onnx/onnx_export.hpp"
#include "runtime/node/models/onnx/onnx_import.hpp"
#include "runtime/node/node_tables.hpp"
#include "tests/error_text.hpp"

namespace troupe::onnx {
namespace {

using test::error_text;
using testing::HasSubstr;
using testing::StartsWith;

value_info described_value(const std::string& name, std::vector<std::int64_t> dims, std::int32_t type = float32) {
  value_info v;
  v.name = name, v.type = type, v.shaped = true;
  for (const auto e : dims) v.dims.push_back({e, "N"});
  return v;
}

tensor_value filled(const std::string& name, std::vector<std::int64_t> dims, float with = 0.5F) {
  tensor_value t;
  t.name = name, t.dims = std::move(dims);
  t.reals.assign(static_cast<std::size_t>(t.count()), with);
  return t;
}

tensor_value whole_numbers(const std::string& name, std::vector<std::int64_t> numbers) {
  tensor_value t;
  t.name = name, t.type = int64, t.dims = {std::ssize(numbers)}, t.whole = std::move(numbers);
  return t;
}

attribute number_attribute(const std::string& name, std::int64_t v) {
  attribute a;
  a.name = name, a.kind = static_cast<std::int32_t>(attribute_kind::integer), a.integer = v;
  return a;
}

attribute numbers_attribute(const std::string& name, std::vector<std::int64_t> v) {
  attribute a;
  a.name = name, a.kind = static_cast<std::int32_t>(attribute_kind::integers), a.integers = std::move(v);
  return a;
}

node one_node(const std::string& op, std::vector<std::string> inputs, std::vector<attribute> with = {}) {
  node n;
  n.name = "node_" + op, n.op = op, n.inputs = std::move(inputs), n.outputs = {"y"}, n.attributes = std::move(with);
  return n;
}

// A net of one node from x [N, 2, 4, 4] to y.
model net_of(node n, std::vector<tensor_value> weights = {}, std::vector<std::int64_t> x = {-1, 2, 4, 4}, std::int64_t opset = 13) {
  model m;
  m.ir_version = 7, m.opset = opset;
  m.graph.inputs = {described_value("x", std::move(x))}, m.graph.outputs = {described_value("y", {-1, 2})};
  m.graph.initializers = std::move(weights);
  m.graph.nodes = {std::move(n)};
  return m;
}

expected<model> parsed(const std::string& bytes) {
  return parse_model({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

std::string why_not_imported(const model& m) { return error_text(import_graph(m, "net.onnx")); }

model small_net() { return net_of(one_node("Gemm", {"x", "w"}, {number_attribute("transB", 1)}), {filled("w", {2, 3})}, {-1, 3}); }

// The bytes of a model whose graph has one tensor.
std::string with_tensor(const std::function<void(protozero::pbf_writer&)>& fill) {
  std::string bytes;
  protozero::pbf_writer out(bytes);
  {
    protozero::pbf_writer opset(out, 8);
    opset.add_int64(2, 13);
  }
  protozero::pbf_writer of_graph(out, 7);
  protozero::pbf_writer of_tensor(of_graph, 5);
  of_tensor.add_string(8, "w");
  fill(of_tensor);
  of_tensor.commit(), of_graph.commit();
  return bytes;
}

TEST(onnx, reads_what_it_writes) {
  const auto m = parsed(*model_bytes(small_net()));
  ASSERT_EQ(error_text(m), "");
  EXPECT_EQ(m->opset, 13);
  ASSERT_EQ(m->graph.nodes.size(), 1u);
  EXPECT_EQ(m->graph.nodes[0].inputs, (std::vector<std::string>{"x", "w"}));
  EXPECT_EQ(m->graph.nodes[0].attributes[0].integer, 1);
  ASSERT_EQ(m->graph.initializers.size(), 1u);
  EXPECT_EQ(m->graph.initializers[0].reals, std::vector<float>(6, 0.5F));
  EXPECT_EQ(m->graph.inputs[0].dims[1].extent, 3);
  EXPECT_EQ(m->graph.inputs[0].dims[0].symbol, "N");
}

TEST(onnx, reads_values_of_every_field_and_type) {
  const auto values = [](const std::function<void(protozero::pbf_writer&)>& fill) {
    const auto m = parsed(with_tensor(fill));
    if (!m) return "error: " + m.error().text;
    std::string s;
    for (const auto v : m->graph.initializers[0].reals) s += std::to_string(v) + " ";
    for (const auto v : m->graph.initializers[0].whole) s += std::to_string(v) + " ";
    return s;
  };
  const auto of = [](std::int32_t type, auto add) {
    return [type, add](protozero::pbf_writer& t) {
      t.add_int64(1, 2), t.add_int32(2, type);
      add(t);
    };
  };
  EXPECT_EQ(values(of(float32, [](auto& t) { t.add_float(4, 1.5F), t.add_float(4, -2); })), "1.500000 -2.000000 ");
  const std::vector<float> packed{1, 2};
  EXPECT_EQ(values(of(float32, [&](auto& t) { t.add_packed_float(4, packed.begin(), packed.end()); })), "1.000000 2.000000 ");
  EXPECT_EQ(values(of(float64, [](auto& t) { t.add_double(10, 0.25), t.add_double(10, 3); })), "0.250000 3.000000 ");
  EXPECT_EQ(values(of(int64, [](auto& t) { t.add_int64(7, -5), t.add_int64(7, 1LL << 40); })), "-5 1099511627776 ");
  EXPECT_EQ(values(of(int32, [](auto& t) { t.add_int32(5, -5), t.add_int32(5, 7); })), "-5 7 ");
  EXPECT_EQ(values(of(boolean, [](auto& t) { t.add_bytes(9, std::string("\1\0", 2)); })), "1 0 ");
  EXPECT_EQ(values(of(int32, [](auto& t) { t.add_bytes(9, std::string("\xff\xff\xff\xff\2\0\0\0", 8)); })), "-1 2 ");
}

TEST(onnx, refuses_tensors_whose_values_do_not_match_their_extents) {
  const auto why = [](const std::function<void(protozero::pbf_writer&)>& fill) { return error_text(parsed(with_tensor(fill))); };
  EXPECT_EQ(why([](auto& t) { t.add_int64(1, 3), t.add_int32(2, float32), t.add_bytes(9, "1234"); }),
            "tensor 'w': it has 4 bytes for 3 values of type FLOAT");
  EXPECT_EQ(why([](auto& t) { t.add_int64(1, 3), t.add_int32(2, float32), t.add_float(4, 1); }),
            "tensor 'w': it has 1 values, its extents need 3");
  EXPECT_EQ(why([](auto& t) { t.add_int64(1, 1), t.add_int32(2, int64), t.add_float(4, 1); }),
            "tensor 'w': it has 0 values, its extents need 1");
  EXPECT_EQ(why([](auto& t) { t.add_int64(1, -1), t.add_int32(2, float32); }), "tensor 'w': an extent is -1");
  EXPECT_EQ(why([](auto& t) { t.add_int64(1, 1LL << 32), t.add_int64(1, 1LL << 32), t.add_int32(2, float32); }),
            "tensor 'w': it has more than 2^40 values");
  EXPECT_EQ(why([](auto& t) { t.add_int32(2, 10); }), "tensor 'w': element type FLOAT16 is not supported");
  EXPECT_THAT(why([](auto& t) { t.add_int32(2, float32), t.add_int32(14, 1); }), HasSubstr("its values are in another file"));
}

TEST(onnx, refuses_models_that_it_does_not_know) {
  EXPECT_EQ(error_text(parsed("")), "it is no ONNX model: it has no graph");
  EXPECT_THAT(error_text(parsed("\xff\xff")), StartsWith("it is no ONNX model, or damaged: "));
  const auto bytes = *model_bytes(small_net());
  EXPECT_THAT(error_text(parsed(bytes.substr(0, bytes.size() - 3))), StartsWith("it is no ONNX model, or damaged: "));
  auto m = small_net();
  m.opset = 6;
  EXPECT_THAT(error_text(parsed(*model_bytes(m))), HasSubstr("it uses operator set 6; supported are 7 to 17"));
  m.opset = 18;
  EXPECT_THAT(error_text(parsed(*model_bytes(m))), HasSubstr("it uses operator set 18"));
  std::string more = bytes;
  protozero::pbf_writer(more).add_bytes(25, "");
  EXPECT_EQ(error_text(parsed(more)), "it has functions of its own, which are not supported");
  more = bytes;
  protozero::pbf_writer(more).add_bytes(7, "");
  EXPECT_EQ(error_text(parsed(more)), "it has a second graph");
}

TEST(onnx, import_names_the_node_that_it_cannot_express) {
  EXPECT_EQ(why_not_imported(net_of(one_node("Hardmax", {"x"}))),
            "net.onnx: node 'node_Hardmax' (Hardmax): this operator is not supported");
  auto other = one_node("Relu", {"x"});
  other.domain = "com.example", other.name.clear();
  EXPECT_EQ(why_not_imported(net_of(other)),
            "net.onnx: node 0 (com.example.Relu): operators of domain 'com.example' are not supported");
  EXPECT_EQ(why_not_imported(net_of(one_node("Relu", {"z"}))),
            "net.onnx: node 'node_Relu' (Relu): it reads 'z', which no node before it computes");
  EXPECT_THAT(why_not_imported(
                  net_of(one_node("Conv", {"x", "w"}, {numbers_attribute("strides", {1, 2, 1})}), {filled("w", {2, 2, 3, 3})})),
              HasSubstr("attribute 'strides' has 3 numbers, but its input is"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Conv", {"x", "w"}), {filled("w", {2, 3, 3, 3})})),
              HasSubstr("its weight has 54 values, 2x2x3x3 are needed"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Conv", {"x", "w"}), {filled("w", {2, 2, 5, 5})})),
              HasSubstr("expects an image no smaller than the kernel's extent 5x5"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Conv", {"x", "x"}))), HasSubstr("its weights must be a constant"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Add", {"x", "w"}), {filled("w", {1, 4, 4})})),
              HasSubstr("a constant of 1x4x4 with a tensor of 1000003x2x4x4; one value, or one by channel"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Concat", {"x", "x"}, {number_attribute("axis", 0)}))),
              HasSubstr("examples of the batch cannot be concatenated"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Softmax", {"x"}, {number_attribute("axis", 0)}))),
              HasSubstr("a softmax over the examples of the batch"));
  EXPECT_THAT(why_not_imported(net_of(one_node("MatMul", {"x", "x"}), {}, {-1, 2, 4, 5})),
              HasSubstr("a product of 1000003x2x4x5 with 1000003x2x4x5 is not supported: the axes in front of the matrices"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Where", {"w", "x", "x"}), {filled("w", {4, 4})})),
              HasSubstr("only a mask of the columns behind the diagonal"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Softmax", {"x"}), {}, {-1, 2, 4, 4}, 12)), HasSubstr("a softmax over axis 1 of"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Transpose", {"x"}))),
              HasSubstr("output 'y': its input 4x4x2x1000003 is transposed"));
}

TEST(onnx, import_refuses_inputs_without_extents) {
  auto m = small_net();
  m.graph.inputs[0].dims[1] = {-1, "width"};
  EXPECT_THAT(why_not_imported(m), HasSubstr("input 'x' has no fixed extent on axis 1"));
  m.graph.inputs[0].shaped = false;
  EXPECT_THAT(why_not_imported(m), HasSubstr("input 'x' has unknown axes"));
  m = small_net();
  m.graph.inputs.push_back(described_value("h", {1}));
  EXPECT_EQ(why_not_imported(m), "net.onnx: the graph has 2 inputs; one is supported");
  m = small_net();
  m.graph.inputs[0].type = 8;
  EXPECT_THAT(why_not_imported(m), HasSubstr("input 'x' is of type STRING"));
}

std::string types_of(const model& m) {
  const auto made = import_graph(m, "net.onnx");
  if (!made) return all_of(made.error()).text;
  const auto job = prepare_text({made->job, "net.toml", {}}, std::make_shared<const tables>(node_tables()));
  if (!job) return all_of(job.error()).text;
  std::string s;
  for (const auto& l : (*job)->graph.layers) s += l.type + " ";
  return s + error_text(check_weights((*job)->graph, made->weights));
}

TEST(onnx, imported_padding_is_the_layers_own_or_a_border) {
  const auto conv = [](std::vector<attribute> with) {
    return types_of(net_of(one_node("Conv", {"x", "w"}, std::move(with)), {filled("w", {3, 2, 3, 3})}));
  };
  EXPECT_EQ(conv({numbers_attribute("pads", {1, 1, 1, 1})}), "convolution softmax_loss ");
  EXPECT_EQ(conv({numbers_attribute("pads", {0, 0, 1, 1})}), "pad convolution softmax_loss ");
  attribute same;
  same.name = "auto_pad", same.kind = static_cast<std::int32_t>(attribute_kind::text), same.text = "SAME_UPPER";
  EXPECT_EQ(conv({same}), "convolution softmax_loss ");
  EXPECT_EQ(conv({same, numbers_attribute("strides", {2, 2})}), "pad convolution softmax_loss ");
}

TEST(onnx, last_softmax_becomes_the_loss) {
  auto m = small_net();
  m.graph.nodes[0].outputs = {"scores"};
  m.graph.nodes.push_back(one_node("Softmax", {"scores"}));
  EXPECT_EQ(types_of(m), "linear softmax_loss ");
  m.graph.nodes[1].op = "Tanh";
  EXPECT_EQ(types_of(m), "linear tanh softmax_loss ");
}

TEST(onnx, layer_names_are_valid_and_unique) {
  auto m = small_net();
  m.graph.nodes[0].outputs = {"a"}, m.graph.nodes[0].name = "/features/0.conv 1";
  for (const auto& [from, to] : {std::pair{"a", "b"}, {"b", "y"}}) {
    auto n = one_node("Relu", {from});
    n.name = "data", n.outputs = {to};
    m.graph.nodes.push_back(n);
  }
  const auto made = import_graph(m, "net.onnx");
  ASSERT_EQ(error_text(made), "");
  EXPECT_THAT(made->job, HasSubstr("name = \"features_0_conv_1\""));
  EXPECT_THAT(made->job, HasSubstr("name = \"data_layer\""));
  EXPECT_THAT(made->job, HasSubstr("name = \"data_layer_1\""));
  EXPECT_EQ(types_of(m), "linear relu relu softmax_loss ");
}

TEST(onnx, unused_parts_of_a_split_need_no_layer) {
  auto n = one_node("Split", {"x", "sizes"}, {number_attribute("axis", 1)});
  n.outputs = {"unused", "half"};
  auto m = net_of(n, {whole_numbers("sizes", {2, 3}), filled("w", {3, 2})}, {-1, 5});
  m.graph.nodes.push_back(one_node("Gemm", {"half", "w"}));
  EXPECT_EQ(types_of(m), "crop linear softmax_loss ");
}

expected<exported, diagnostics> exported_layers(const std::string& layers, const name_pairs& names) {
  const auto text = "[job]\nname = \"net\"\n[data]\nsource = \"synthetic\"\nshape = [1, 4, 4]\nclasses = 2\n" + layers +
                    "[train]\nsync = { mode = \"bsp\" }\ndynamics = { rule = \"sgd\", lr = 0.1 }\nfinish = { epochs = 1 }\n";
  const auto job = prepare_text({text, "net.toml", {}}, std::make_shared<const tables>(node_tables()));
  if (!job) return unexpected(job.error());
  named_tensors weights;
  for (const auto& p : (*job)->graph.params) {
    const auto zeros = std::make_shared<std::vector<float>>(static_cast<std::size_t>(p.spec.dims.count()));
    weights.emplace_back(p.full_name, tensor::adopt(zeros, zeros->data(), p.spec.dims, dtype::f32));
  }
  return export_job(**job, weights, names);
}
std::string why_not_exported(const std::string& layers) {
  return error_text(exported_layers(layers, {{"theirs", "linear.weight"}}));
}

TEST(onnx, shared_parameter_is_written_once) {
  const auto linear = [](const std::string& name, const std::string& input, const std::string& more) {
    return "[[layer]]\nname = \"" + name + "\"\ntype = \"linear\"\noutputs = 2\ninputs = [\"" + input + "\"]\n" + more;
  };
  const auto made = exported_layers(linear("first", "data", "") + linear("a", "first", "") + linear("b", "a", "share = \"a\"\n") +
                                        linear("c", "b", "share = \"a.weight\"\n") +
                                        "[[layer]]\nname = \"loss\"\ntype = \"softmax_loss\"\ninputs = [\"c\", \"label\"]\n",
                                    {});
  ASSERT_TRUE(made) << error_text(made);
  std::vector<std::string> names;
  for (const auto& t : made->model.graph.initializers) names.push_back(t.name);
  EXPECT_THAT(names, testing::ElementsAre("first.weight", "first.bias", "a.weight", "a.bias", "c.bias"));
  for (const auto& n : made->model.graph.nodes)
    if (n.op == "Gemm" && n.name != "first") {
      EXPECT_THAT(n.inputs, testing::Contains("a.weight")) << n.name;
    }
}

TEST(onnx, export_names_the_layer_that_onnx_cannot_express) {
  const std::string linear = "[[layer]]\nname = \"linear\"\ntype = \"linear\"\noutputs = 2\ninputs = [\"",
                    loss = "[[layer]]\nname = \"loss\"\ntype = \"softmax_loss\"\ninputs = [\"linear\", \"label\"]\n";
  EXPECT_EQ(why_not_exported(linear + "data\"]\n" + loss), "");
  const auto machine =
      "[[layer]]\nname = \"machine\"\ntype = \"rbm\"\nunits = 3\ninputs = [\"data\"]\n" + linear + "machine.1\"]\n" + loss;
  EXPECT_EQ(why_not_exported(machine), "net.toml:7:1: layer 'machine' (rbm): type 'rbm' has no equivalent in ONNX");
  const auto unnamed =
      "[[layer]]\nname = \"ip\"\ntype = \"linear\"\noutputs = 2\ninputs = [\"data\"]\n[[layer]]\nname = \"loss\"\ntype = "
      "\"softmax_loss\"\ninputs = [\"ip\", \"label\"]\n";
  EXPECT_EQ(why_not_exported(unnamed), "the job has no parameter 'linear.weight', which the list of names gives to 'theirs'");
}

}  // namespace
}  // namespace troupe::onnx
