// ONNX: what the reader refuses, what an import and an export name in their errors, and the job of
// an imported net. Values are compared with an evaluator and PyTorch in tests/interop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <protozero/pbf_writer.hpp>

#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/models/onnx/onnx_export.hpp"
#include "runtime/node/models/onnx/onnx_format.hpp"
#include "runtime/node/models/onnx/onnx_import.hpp"
#include "runtime/node/node_tables.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe::onnx {
namespace {

using test::error_text;
using testing::HasSubstr;
using testing::Not;
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
  EXPECT_EQ(values(of(float16, [](auto& t) { t.add_int32(5, 0x3c00), t.add_int32(5, 0xc100); })), "1.000000 -2.500000 ");
  EXPECT_EQ(values(of(float16, [](auto& t) { t.add_bytes(9, std::string("\0\2\xff\x7b", 4)); })), "0.000031 65504.000000 ");
  EXPECT_EQ(values(of(bfloat16, [](auto& t) { t.add_bytes(9, std::string("\x80\x3f\x20\xc0", 4)); })), "1.000000 -2.500000 ");
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
  EXPECT_EQ(why([](auto& t) { t.add_int32(2, 8); }), "tensor 'w': element type STRING is not supported");
  EXPECT_THAT(why([](auto& t) { t.add_int32(2, float32), t.add_int32(14, 1); }), HasSubstr("its values are in another file"));
}

// A tensor of two FLOAT whose values are in another file.
std::string with_external(const std::vector<std::pair<std::string, std::string>>& entries) {
  return with_tensor([&](protozero::pbf_writer& t) {
    t.add_int64(1, 2), t.add_int32(2, float32), t.add_int32(14, 1);
    for (const auto& [key, value] : entries) {
      protozero::pbf_writer entry(t, 13);
      entry.add_string(1, key), entry.add_string(2, value);
    }
  });
}

TEST(onnx, reads_values_of_a_file_beside_the_model) {
  const std::vector<float> kept{7, 1.5F, -2};
  const external_files files = [&](const std::string& location) -> expected<std::span<const std::uint8_t>> {
    if (location != "m.onnx.data") return unexpected(error("there is no such file"));
    return std::span(reinterpret_cast<const std::uint8_t*>(kept.data()), kept.size() * 4);
  };
  const auto of = [&](const std::vector<std::pair<std::string, std::string>>& entries) {
    const auto bytes = with_external(entries);
    return parse_model({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, files);
  };
  const auto m = of({{"location", "m.onnx.data"}, {"offset", "4"}, {"length", "8"}});
  ASSERT_EQ(error_text(m), "");
  EXPECT_EQ(m->graph.initializers[0].reals, (std::vector<float>{1.5F, -2}));
  EXPECT_EQ(error_text(of({{"location", "m.onnx.data"}, {"offset", "8"}, {"length", "8"}})),
            "tensor 'w': its values are beyond the end of 'm.onnx.data' (12 bytes)");
  EXPECT_EQ(error_text(of({{"location", "m.onnx.data"}, {"offset", "18446744073709551615"}, {"length", "8"}})),
            "tensor 'w': its values are beyond the end of 'm.onnx.data' (12 bytes)");
  EXPECT_EQ(error_text(of({{"location", "other"}})), "tensor 'w': its values are in 'other': there is no such file");
  EXPECT_EQ(error_text(of({{"location", "m.onnx.data"}, {"offset", "-4"}})), "tensor 'w': '-4' is no offset");
  EXPECT_EQ(error_text(of({})), "tensor 'w': its values are in another file, which it does not name");
}

// Each tensor copies its values: many of one part would fill memory.
TEST(onnx, refuses_tensors_that_take_more_of_a_file_than_it_has) {
  const test::temp_dir dir;
  const auto read = [&](const std::string& bytes) {
    std::ofstream(dir.file("m.onnx"), std::ios::binary) << bytes;
    return error_text(onnx_format().read({{dir.file("m.onnx")}, {}}));
  };
  const auto two = [](const std::string& first, const std::string& second) {
    std::string bytes;
    protozero::pbf_writer out(bytes);
    protozero::pbf_writer graph(out, 7);
    for (const auto& location : {first, second}) {
      protozero::pbf_writer t(graph, 5);
      t.add_string(8, "w"), t.add_int64(1, 2), t.add_int32(2, float32), t.add_int32(14, 1);
      for (const auto& [key, value] : {std::pair<const char*, std::string>("location", location), {"length", "8"}}) {
        protozero::pbf_writer e(t, 13);
        e.add_string(1, key), e.add_string(2, value);
      }
    }
    graph.commit();
    return bytes;
  };
  std::ofstream(dir.file("w"), std::ios::binary) << std::string(12, '\0');
  for (const std::string second : {"w", "./w"})
    EXPECT_THAT(read(two("w", second)), HasSubstr("of which the tensors take more bytes in all than it has")) << second;
  std::ofstream(dir.file("w"), std::ios::binary) << std::string(16, '\0');
  EXPECT_THAT(read(two("w", "w")), Not(HasSubstr("more bytes"))) << "two tensors may overlap";
}

TEST(onnx, files_of_values_must_be_in_the_folder_of_the_model) {
  const test::temp_dir dir;
  const std::filesystem::path folder(dir.path);
  const auto home = folder / "model";
  std::filesystem::create_directory(home);
  std::ofstream(folder / "secret") << "12345678";
  std::filesystem::create_symlink(folder / "secret", home / "link");
  const auto why = [&](const std::string& location) {
    const auto bytes = with_external({{"location", location}});
    std::ofstream(home / "m.onnx", std::ios::binary) << bytes;
    return error_text(onnx_format().read({{(home / "m.onnx").string()}, {}}));
  };
  EXPECT_THAT(why("../secret"), HasSubstr("a file of values must be in the folder of the model"));
  EXPECT_THAT(why((folder / "secret").string()), HasSubstr("a file of values must be in the folder of the model"));
  EXPECT_THAT(why("link"), HasSubstr("a link that leads out of the folder of the model"));
  EXPECT_THAT(why("none"), HasSubstr("there is no such file beside the model"));
  EXPECT_THAT(why("."), HasSubstr("it is no regular file"));
}

TEST(onnx, refuses_models_that_it_does_not_know) {
  EXPECT_EQ(error_text(parsed("")), "it is no ONNX model: it has no graph");
  EXPECT_THAT(error_text(parsed("\xff\xff")), StartsWith("it is no ONNX model, or damaged: "));
  const auto bytes = *model_bytes(small_net());
  EXPECT_THAT(error_text(parsed(bytes.substr(0, bytes.size() - 3))), StartsWith("it is no ONNX model, or damaged: "));
  auto m = small_net();
  m.opset = 6;
  EXPECT_THAT(error_text(parsed(*model_bytes(m))), HasSubstr("it uses operator set 6; supported are 7 to 21"));
  m.opset = 22;
  EXPECT_THAT(error_text(parsed(*model_bytes(m))), HasSubstr("it uses operator set 22"));
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
              HasSubstr("a constant of 1x4x4 with a tensor of Nx2x4x4; one value, or one by channel"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Concat", {"x", "x"}, {number_attribute("axis", 0)}))),
              HasSubstr("examples of the batch cannot be concatenated"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Softmax", {"x"}, {number_attribute("axis", 0)}))),
              HasSubstr("a softmax over the examples of the batch"));
  EXPECT_THAT(why_not_imported(net_of(one_node("MatMul", {"x", "x"}), {}, {-1, 2, 4, 5})),
              HasSubstr("a product of Nx2x4x5 with Nx2x4x5 is not supported: the axes in front of the matrices"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Where", {"w", "x", "x"}), {filled("w", {4, 4})})),
              HasSubstr("only a mask of the columns behind the diagonal"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Softmax", {"x"}), {}, {-1, 2, 4, 4}, 12)), HasSubstr("a softmax over axis 1 of"));
  EXPECT_THAT(why_not_imported(net_of(one_node("Transpose", {"x"}))), HasSubstr("output 'y': its input 4x4x2xN is transposed"));
}

TEST(onnx, import_refuses_inputs_without_extents) {
  auto m = small_net();
  m.graph.inputs[0].dims[1] = {-1, "width"};
  EXPECT_THAT(why_not_imported(m), HasSubstr("input 'x' has no fixed extent on axis 1"));
  m.graph.inputs[0].shaped = false;
  EXPECT_THAT(why_not_imported(m), HasSubstr("input 'x' has unknown axes; 1 to 6"));
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

// Types of the imported layers without the loss. Nets without parameters can be imported, too.
std::string kinds_of(const model& m) {
  const auto made = import_graph(m, "net.onnx");
  if (!made) return all_of(made.error()).text;
  std::string s;
  for (auto at = made->job.find("\ntype = \""); at != std::string::npos; at = made->job.find("\ntype = \"", at + 1)) {
    const auto from = at + 9;
    s += (s.empty() ? "" : " ") + made->job.substr(from, made->job.find('"', from) - from);
  }
  return s.substr(0, s.rfind(' '));
}

attribute real_attribute(const std::string& name, float v) {
  attribute a;
  a.name = name, a.kind = static_cast<std::int32_t>(attribute_kind::real), a.real = v;
  return a;
}

TEST(onnx, clips_and_hard_functions_have_layers) {
  EXPECT_EQ(kinds_of(net_of(one_node("Clip", {"x", "low", "high"}), {filled("low", {}, 0), filled("high", {}, 6)})), "relu6");
  EXPECT_EQ(kinds_of(net_of(one_node("Clip", {"x"}, {real_attribute("min", 0), real_attribute("max", 6)}), {}, {-1, 2, 4, 4}, 9)),
            "relu6");
  EXPECT_EQ(kinds_of(net_of(one_node("Clip", {"x", "low"}), {filled("low", {}, 0)})), "relu");
  EXPECT_EQ(kinds_of(net_of(one_node("Clip", {"x", "low", "high"}), {filled("low", {}, -1), filled("high", {}, 1)})),
            "bias relu6 bias");
  EXPECT_EQ(kinds_of(net_of(one_node("HardSwish", {"x"}), {}, {-1, 2, 4, 4}, 14)), "hard_swish");
  EXPECT_EQ(kinds_of(net_of(one_node("HardSigmoid", {"x"}))), "hard_sigmoid");
  EXPECT_THAT(why_not_imported(net_of(one_node("HardSigmoid", {"x"}, {real_attribute("beta", 0.25)}))),
              HasSubstr("its beta must be 0.5"));
}

TEST(onnx, a_clip_without_a_minimum_has_layers) {
  EXPECT_EQ(kinds_of(net_of(one_node("Clip", {"x", "", "high"}), {filled("high", {}, 6)})), "eltwise bias relu eltwise bias");
}

// Adds a node behind the last one; its output is "y".
void then(model& m, const std::string& op, std::vector<std::string> inputs, std::vector<attribute> with = {}) {
  auto& nodes = m.graph.nodes;
  if (!nodes.empty()) nodes.back().outputs = {"v" + std::to_string(nodes.size())};
  nodes.push_back(one_node(op, std::move(inputs), std::move(with)));
}

// A composed layer norm of x [N, 3, 4], with the axes of its means as inputs.
model composed_norm(const std::vector<std::string>& parameters) {
  auto m =
      net_of(one_node("ReduceMean", {"x", "axes"}),
             {whole_numbers("axes", {-1}), filled("two", {}, 2), filled("small", {}, 1e-5F), filled("w", {4}), filled("b", {4})},
             {-1, 3, 4}, 18);
  then(m, "Sub", {"x", "v1"});
  then(m, "Pow", {"v2", "two"});
  then(m, "ReduceMean", {"v3", "axes"});
  then(m, "Add", {"v4", "small"});
  then(m, "Sqrt", {"v5"});
  then(m, "Div", {"v2", "v6"});
  if (!parameters.empty()) then(m, "Mul", {"v7", parameters[0]});
  if (parameters.size() > 1) then(m, "Add", {"v8", parameters[1]});
  return m;
}

TEST(onnx, a_composed_layer_norm_of_operator_set_18_is_a_layer) {
  EXPECT_EQ(kinds_of(composed_norm({})), "layer_norm");
  EXPECT_EQ(kinds_of(composed_norm({"w"})), "layer_norm");
  EXPECT_EQ(kinds_of(composed_norm({"w", "b"})), "layer_norm");
  EXPECT_EQ(kinds_of(composed_norm({"two"})), "layer_norm eltwise");
}

TEST(onnx, a_mean_over_steps_is_a_pooling) {
  const auto mean = [](std::vector<std::int64_t> axes) {
    return kinds_of(net_of(one_node("ReduceMean", {"x"}, {numbers_attribute("axes", std::move(axes))}), {}, {-1, 3, 4}));
  };
  EXPECT_EQ(mean({2}), "avg_pool");
  EXPECT_EQ(mean({1}), "permute avg_pool permute");
}

TEST(onnx, a_mask_made_of_constants_is_a_causal_softmax) {
  auto m = net_of(one_node("Trilu", {"ones"}, {number_attribute("upper", 0)}),
                  {filled("ones", {4, 4}, 1), filled("zero", {}, 0), filled("low", {}, -std::numeric_limits<float>::infinity())});
  then(m, "Equal", {"v1", "zero"});
  then(m, "Where", {"v2", "low", "zero"});
  then(m, "Add", {"x", "v3"});
  then(m, "Softmax", {"v4"}, {number_attribute("axis", -1)});
  then(m, "Relu", {"v5"});
  EXPECT_EQ(kinds_of(m), "softmax relu");
  EXPECT_THAT(import_graph(m, "net.onnx")->job, HasSubstr("causal = true"));
}

// Attention of three heads with itself over x [batch, 5, 12], with the heads joined with the batch.
model joined_attention(std::int64_t batch) {
  const auto times = [&](std::int64_t n) { return batch < 0 ? -1 : n * batch; };
  auto m = net_of(one_node("Transpose", {"x"}, {numbers_attribute("perm", {1, 0, 2})}),
                  {whole_numbers("heads", {5, times(3), 4}), whole_numbers("rows", {times(5), 12}),
                   whole_numbers("back", {5, times(1), 12}), filled("w", {12, 12})},
                  {batch, 5, 12});
  const auto turned = [](std::vector<std::int64_t> perm) { return std::vector{numbers_attribute("perm", std::move(perm))}; };
  then(m, "Reshape", {"v1", "heads"});
  then(m, "Transpose", {"v2"}, turned({1, 0, 2}));
  then(m, "Transpose", {"v2"}, turned({1, 2, 0}));
  then(m, "MatMul", {"v3", "v4"});
  then(m, "Softmax", {"v5"}, {number_attribute("axis", -1)});
  then(m, "MatMul", {"v6", "v3"});
  then(m, "Transpose", {"v7"}, turned({1, 0, 2}));
  then(m, "Reshape", {"v8", "rows"});
  then(m, "Gemm", {"v9", "w"});
  then(m, "Reshape", {"v10", "back"});
  then(m, "Transpose", {"v11"}, turned({1, 0, 2}));
  return m;
}

TEST(onnx, heads_joined_with_the_batch_have_the_layers_of_heads) {
  const std::string layers = "reshape permute matmul softmax matmul permute reshape linear";
  EXPECT_EQ(kinds_of(joined_attention(-1)), layers);
  EXPECT_EQ(kinds_of(joined_attention(3)), layers);
  EXPECT_EQ(kinds_of(joined_attention(1)), layers);
}

TEST(onnx, rows_of_the_batch_and_the_steps_need_no_layer) {
  auto m = net_of(one_node("Reshape", {"x", "rows"}),
                  {whole_numbers("rows", {-1, 12}), whole_numbers("back", {-1, 5, 12}), filled("w", {12, 12})}, {-1, 5, 12});
  then(m, "Gemm", {"v1", "w"});
  then(m, "Relu", {"v2"});
  then(m, "Reshape", {"v3", "back"});
  EXPECT_EQ(kinds_of(m), "linear relu");
}

TEST(onnx, refuses_a_mean_over_rows_whose_batch_is_joined) {
  auto m = net_of(one_node("Reshape", {"x", "rows"}), {whole_numbers("rows", {-1, 12})}, {-1, 5, 12});
  then(m, "ReduceMean", {"v1"}, {numbers_attribute("axes", {1})});
  EXPECT_THAT(why_not_imported(m), HasSubstr("node 'node_ReduceMean' (ReduceMean): input 0 is 5Nx12, whose batch is joined"));
}

TEST(onnx, a_shape_gives_the_extents_that_are_asked_for) {
  auto m = net_of(one_node("Shape", {"x"}, {number_attribute("start", 0), number_attribute("end", 1)}),
                  {whole_numbers("rest", {8, 4})}, {-1, 2, 4, 4}, 15);
  then(m, "Concat", {"v1", "rest"}, {number_attribute("axis", 0)});
  then(m, "Reshape", {"x", "v2"});
  EXPECT_EQ(kinds_of(m), "reshape");
}

TEST(onnx, an_input_of_one_axis_is_one_value_for_each_example) {
  auto m = net_of(one_node("Gather", {"table", "x"}), {filled("table", {6, 3})}, {-1});
  m.graph.inputs[0].type = int64;
  EXPECT_EQ(kinds_of(m), "embedding flatten");
  EXPECT_THAT(import_graph(m, "net.onnx")->job, HasSubstr("shape = [1]"));
  m = net_of(one_node("Unsqueeze", {"x", "axis"}), {whole_numbers("axis", {1}), filled("w", {1, 3})}, {-1});
  then(m, "Gemm", {"v1", "w"});
  EXPECT_EQ(kinds_of(m), "linear");
}

TEST(onnx, a_product_with_one_needs_no_layer) {
  auto m = net_of(one_node("Mul", {"x", "one"}), {filled("one", {}, 1)});
  then(m, "Relu", {"v1"});
  EXPECT_EQ(kinds_of(m), "relu");
}

TEST(onnx, a_product_with_numbers_of_the_last_axis_is_a_scale) {
  EXPECT_EQ(kinds_of(net_of(one_node("Mul", {"x", "w"}), {filled("w", {12})}, {-1, 5, 12})), "permute scale permute");
}

TEST(onnx, a_sum_with_numbers_of_channels_repeats_them) {
  auto m = net_of(one_node("GlobalAveragePool", {"x"}));
  then(m, "Add", {"x", "v1"});
  EXPECT_EQ(kinds_of(m), "avg_pool upsample eltwise");
}

TEST(onnx, a_slice_to_the_largest_integer_ends_at_the_end) {
  const auto largest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(kinds_of(net_of(
                one_node("Slice", {"x"},
                         {numbers_attribute("axes", {2}), numbers_attribute("starts", {1}), numbers_attribute("ends", {largest})}),
                {}, {-1, 2, 4, 4}, 9)),
            "crop");
}

TEST(onnx, a_product_with_numbers_of_channels_is_a_channel_scale) {
  auto m = net_of(one_node("GlobalAveragePool", {"x"}));
  m.graph.nodes[0].outputs = {"p"};
  m.graph.nodes.push_back(one_node("Mul", {"p", "x"}));
  EXPECT_EQ(kinds_of(m), "avg_pool channel_scale");
}

TEST(onnx, a_bias_of_channels_behind_needs_no_permute) {
  auto m = net_of(one_node("Transpose", {"x"}, {numbers_attribute("perm", {0, 2, 3, 1})}), {filled("b", {2})});
  m.graph.nodes[0].outputs = {"t"};
  m.graph.nodes.push_back(one_node("Add", {"t", "b"}));
  m.graph.nodes[1].outputs = {"a"};
  m.graph.nodes.push_back(one_node("Transpose", {"a"}, {numbers_attribute("perm", {0, 3, 1, 2})}));
  EXPECT_EQ(kinds_of(m), "bias");
}

TEST(onnx, layers_that_share_a_bias_keep_their_equal_weights_apart) {
  auto m =
      net_of(one_node("Gemm", {"x", "w", "b"}), {filled("w", {6, 6}, 0), filled("v", {6, 6}, 0), filled("b", {6}, 0)}, {-1, 6});
  m.graph.nodes[0].outputs = {"a"};
  m.graph.nodes.push_back(one_node("Gemm", {"a", "v", "b"}));
  m.graph.nodes[1].name = "again";
  const auto made = import_graph(m, "net.onnx");
  ASSERT_EQ(error_text(made), "");
  EXPECT_THAT(made->job, HasSubstr("share = \"node_Gemm.bias\""));
  EXPECT_EQ(made->weights.size(), 3u);
}

TEST(onnx, follows_initializers_through_a_long_chain_of_constants) {
  constexpr int nodes = 20'000;
  auto m = net_of(one_node("Add", {"x", "x"}), {whole_numbers("c0", {0, 2})}, {-1, 2});
  m.graph.nodes.clear();
  for (int k = 1; k <= nodes; ++k) {
    const auto number = std::to_string(k);
    m.graph.initializers.push_back(whole_numbers("i" + number, {0, 0}));
    m.graph.nodes.push_back(one_node("Add", {"c" + std::to_string(k - 1), "i" + number}));
    m.graph.nodes.back().outputs = {"c" + number};
  }
  m.graph.nodes.push_back(one_node("Relu", {"x"}));
  m.graph.nodes.back().outputs = {"z"};
  m.graph.nodes.push_back(one_node("Reshape", {"z", "c" + std::to_string(nodes)}));
  EXPECT_EQ(why_not_imported(m), "");
}

TEST(onnx, reads_many_layers_with_parameters_of_their_own) {
  constexpr int layers = 20'000;
  auto m = net_of(one_node("Gemm", {"x", "w0"}), {}, {-1, 2});
  m.graph.nodes.clear();
  for (int k = 0; k < layers; ++k) {
    const auto number = std::to_string(k);
    m.graph.initializers.push_back(filled("w" + number, {2, 2}));
    m.graph.nodes.push_back(one_node("Gemm", {k == 0 ? "x" : "y" + std::to_string(k - 1), "w" + number}));
    m.graph.nodes.back().name += number;
    m.graph.nodes.back().outputs = {k + 1 == layers ? "y" : "y" + number};
  }
  const auto made = import_graph(m, "net.onnx");
  ASSERT_EQ(error_text(made), "");
  EXPECT_EQ(made->weights.size(), std::size_t{layers});
}

TEST(onnx, layers_that_read_one_initializer_share_the_parameter) {
  auto m = net_of(one_node("MatMul", {"x", "w"}), {filled("w", {6, 6})}, {-1, 6});
  m.graph.nodes[0].outputs = {"a"};
  m.graph.nodes.push_back(one_node("Relu", {"a"}));
  m.graph.nodes[1].outputs = {"b"};
  m.graph.nodes.push_back(one_node("MatMul", {"b", "w"}));
  m.graph.nodes[2].name = "again";
  const auto made = import_graph(m, "net.onnx");
  ASSERT_EQ(error_text(made), "");
  EXPECT_THAT(made->job, HasSubstr("share = \"node_MatMul\""));
  ASSERT_EQ(made->weights.size(), 1u);
  EXPECT_EQ(types_of(m), "linear relu linear softmax_loss ");
  // Equal values of two initializers are two parameters.
  m.graph.initializers.push_back(filled("v", {6, 6}));
  m.graph.nodes[2].inputs = {"b", "v"};
  const auto apart = import_graph(m, "net.onnx");
  ASSERT_EQ(apart->weights.size(), 2u);
  EXPECT_EQ(apart->weights[0].second.raw(), apart->weights[1].second.raw()) << "they take memory once";
}

TEST(onnx, operators_of_sets_18_to_21_have_layers) {
  const auto groups = [](std::int64_t opset, std::int64_t count) {
    return kinds_of(net_of(one_node("GroupNormalization", {"x", "s", "b"}, {number_attribute("num_groups", 2)}),
                           {filled("s", {count}), filled("b", {count})}, {-1, 6, 4, 4}, opset));
  };
  EXPECT_EQ(groups(18, 2), "group_norm");
  EXPECT_EQ(groups(21, 6), "group_norm");
  EXPECT_EQ(kinds_of(net_of(one_node("Gelu", {"x"}), {}, {-1, 2, 4, 4}, 20)), "gelu");
  EXPECT_EQ(kinds_of(net_of(one_node("ReduceMean", {"x", "axes"}), {whole_numbers("axes", {2, 3})}, {-1, 2, 4, 4}, 18)),
            "avg_pool");
  EXPECT_THAT(why_not_imported(net_of(one_node("Resize", {"x"}, {number_attribute("antialias", 1)}), {}, {-1, 2, 4, 4}, 18)),
              HasSubstr("antialias = 1 is not supported"));
}

TEST(onnx, a_batch_norm_in_training_mode_is_refused) {
  const auto m = net_of(one_node("BatchNormalization", {"x", "s", "b", "m", "v"}, {number_attribute("training_mode", 1)}),
                        {filled("s", {2}), filled("b", {2}), filled("m", {2}), filled("v", {2})}, {-1, 2, 4, 4}, 14);
  EXPECT_THAT(why_not_imported(m), HasSubstr("training_mode = 1"));
}

TEST(onnx, errors_call_the_batch_n) {
  const auto why = why_not_imported(net_of(one_node("Reshape", {"x", "s"}), {whole_numbers("s", {4, 16})}));
  EXPECT_THAT(why, HasSubstr("its shape 4x16 has another number of values than Nx2x4x4"));
  EXPECT_THAT(why, Not(HasSubstr("1000003")));
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
