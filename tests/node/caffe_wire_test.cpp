// .caffemodel files: what protoc writes is read, and what Troupe writes is read by protoc; the old
// forms of blobs and layers; damaged files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/node/caffe_net_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe::caffe {
namespace {

using namespace nets;
using testing::ElementsAre;
using testing::HasSubstr;

bool protoc_is_here() { return std::system("protoc --version >/dev/null 2>&1") == 0; }

std::string protoc_of_nets(const std::string& how, const std::string& input) {
  test::temp_dir dir;
  std::ofstream(dir.file("in"), std::ios::binary) << input;
  const auto command = "protoc --proto_path=" + std::string(TROUPE_SOURCE_DIR) + "/tests/node " + how +
                       "=Net caffe_blobs.proto < " + dir.file("in") + " > " + dir.file("out") + " 2> " + dir.file("err");
  EXPECT_EQ(std::system(command.c_str()), 0) << input.substr(0, 2000);
  const auto bytes = test::read_bytes(dir.file("out"));
  return {bytes.begin(), bytes.end()};
}

#define NEEDS_PROTOC \
  if (!protoc_is_here()) GTEST_SKIP() << "protoc is not installed (package protobuf-compiler)"

binary_net parsed_net(const std::string& bytes) {
  auto r = parse_binary_net(bytes.data(), bytes.size());
  EXPECT_EQ(test::error_text(r), "");
  return r ? *std::move(r) : binary_net();
}
std::string why_no_net(const std::string& bytes) { return test::error_text(parse_binary_net(bytes.data(), bytes.size())); }

const char* const net_text = R"(name: "n"
layer {
  name: "data"
  type: "Input"
  top: "data"
  input_param {
    shape {
      dim: 5
      dim: 2
      dim: 9
      dim: 9
    }
  }
}
layer {
  name: "conv"
  type: "Convolution"
  bottom: "data"
  top: "conv"
  blobs {
    data: 0.1
    data: -2.5
    data: 1e-40
    data: 3
    shape {
      dim: 2
      dim: 2
      dim: 1
      dim: 1
    }
  }
  blobs {
    data: 0.25
    data: inf
    shape {
      dim: 2
    }
  }
  convolution_param {
    num_output: 2
    pad: 1
    kernel_size: 1
    weight_filler {
      type: "gaussian"
      std: 0.1
    }
  }
}
layer {
  name: "pool"
  type: "Pooling"
  bottom: "conv"
  top: "pool"
  pooling_param {
    pool: AVE
    kernel_size: 3
  }
}
)";

TEST(caffe_wire, reads_what_protoc_writes) {
  NEEDS_PROTOC;
  const auto n = parsed_net(protoc_of_nets("--encode", net_text));
  ASSERT_EQ(n.blobs.size(), 2u);
  EXPECT_EQ(n.net.fields[0].text, "n");
  EXPECT_THAT(n.blobs[0].dims, ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(*n.blobs[0].values, ElementsAre(0.1F, -2.5F, 1e-40F, 3));
  const auto text = prototxt_of(n.net);
  EXPECT_THAT(text, HasSubstr("  pooling_param {\n    pool: AVE\n    kernel_size: 3\n  }\n")) << "words of enums, too";
  EXPECT_THAT(text, HasSubstr("      std: 0.1\n")) << "the shortest text of the float";
  EXPECT_THAT(text, HasSubstr("    shape {\n      dim: 5\n      dim: 2\n"));
}

TEST(caffe_wire, writes_what_protoc_reads) {
  NEEDS_PROTOC;
  const auto bytes = protoc_of_nets("--encode", net_text);
  const auto again = binary_of(parsed_net(bytes));
  ASSERT_TRUE(again);
  const auto decoded = protoc_of_nets("--decode", *again);
  EXPECT_EQ(decoded, protoc_of_nets("--decode", bytes));
  EXPECT_THAT(decoded, HasSubstr("data: -2.5"));
}

TEST(caffe_wire, imports_a_net_and_its_weights_of_one_file) {
  NEEDS_PROTOC;
  const auto m = imported({{"n.caffemodel", protoc_of_nets(
                                                "--encode", std::string(net_text) + R"(
layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 1 }
  blobs { shape { dim: 1 dim: 162 } )" + [] {
                                                  std::string s;
                                                  for (int i = 0; i < 162; ++i) s += "data: 1 ";
                                                  return s;
                                                }() + R"( } blobs { shape { dim: 1 } data: 7 } })")}});
  ASSERT_EQ(m.weights.size(), 4u);
  EXPECT_EQ(m.weights[0].first, "conv.weight");
  EXPECT_EQ(m.weights[0].second.dims(), (shape{2, 2, 1, 1}));
  EXPECT_EQ(m.weights[3].first, "fc.bias");
  EXPECT_EQ(m.weights[3].second.data<float>()[0], 7);
  const auto j = prepared(m.job);
  ASSERT_TRUE(j);
  EXPECT_EQ(test::error_text(check_weights(j->graph, m.weights)), "");
}

TEST(caffe_wire, reads_layers_and_blobs_of_the_first_version) {
  NEEDS_PROTOC;
  const auto m = imported({{"old.caffemodel", protoc_of_nets("--encode", R"(
input: "data" input_dim: 3 input_dim: 1 input_dim: 1 input_dim: 2
layers { name: "c" type: CONVOLUTION bottom: "data" top: "c" convolution_param { num_output: 1 kernel_size: 1 }
  blobs { num: 1 channels: 1 height: 1 width: 1 data: 4 } blobs { num: 1 channels: 1 height: 1 width: 1 data: 5 } }
layers { name: "fc" type: INNER_PRODUCT bottom: "c" top: "fc" inner_product_param { num_output: 3 } blobs_lr: 1 blobs_lr: 2
  blobs { num: 1 channels: 1 height: 3 width: 2 double_data: 1 double_data: 2 double_data: 3 double_data: 4 double_data: 5 double_data: 6 }
  blobs { num: 1 channels: 1 height: 1 width: 3 data: 7 data: 8 data: 9 } })")}});
  ASSERT_EQ(m.weights.size(), 4u);
  EXPECT_EQ(m.weights[1].second.dims(), (shape{1}));
  EXPECT_EQ(m.weights[2].second.dims(), (shape{3, 2}));
  const auto* w = m.weights[2].second.data<float>();
  EXPECT_THAT(std::vector<float>(w, w + 6), ElementsAre(1, 2, 3, 4, 5, 6));
  const auto j = prepared(m.job);
  ASSERT_TRUE(j);
  EXPECT_EQ(test::error_text(check_weights(j->graph, m.weights)), "");
}

TEST(caffe_wire, reads_values_that_are_not_packed) {
  std::string data = "\x2d";  // field 5, fixed32
  const float v = 1.5F;
  data.append(reinterpret_cast<const char*>(&v), 4);
  data += "\x3a\x02\x08\x01";  // field 7, a BlobShape with dim 1 that is not packed
  const auto inner = "\x3a" + std::string(1, static_cast<char>(data.size())) + data;
  const auto file = "\xa2\x06" + std::string(1, static_cast<char>(inner.size())) + inner;
  const auto n = parsed_net(file);
  ASSERT_EQ(n.blobs.size(), 1u);
  EXPECT_THAT(n.blobs[0].dims, ElementsAre(1));
  EXPECT_THAT(*n.blobs[0].values, ElementsAre(1.5F));
}

TEST(caffe_wire, names_unknown_fields_by_number) {
  NEEDS_PROTOC;
  const auto bytes = protoc_of_nets(
      "--encode", std::string(net_text) + "layer { name: \"x\" type: \"ReLU\" bottom: \"pool\" top: \"x\" of_a_fork: 1 }");
  EXPECT_THAT(mistakes({{"n.caffemodel", bytes}}),
              HasSubstr("n.caffemodel: layer 'x' (ReLU): Troupe does not know the field 'field 777'"));
}

TEST(caffe_wire, refuses_damaged_files) {
  NEEDS_PROTOC;
  const auto bytes = protoc_of_nets("--encode", net_text);
  EXPECT_THAT(why_no_net(bytes.substr(0, bytes.size() - 3)), HasSubstr("is no .caffemodel, or it is damaged: end of buffer"));
  EXPECT_THAT(why_no_net("\x0a\xff\xff\xff\xff\x0f"), HasSubstr("damaged"));
  const auto blob = [&](const std::string& text) {
    return why_no_net(protoc_of_nets("--encode", "layer { name: \"x\" type: \"Bias\" blobs { " + text + " } }"));
  };
  EXPECT_THAT(blob("shape { dim: 3 } data: 1"), HasSubstr("a blob of shape 3 has 1 values"));
  EXPECT_THAT(blob("shape { dim: -3 } data: 1"), HasSubstr("a blob has the shape -3"));
  EXPECT_THAT(blob("shape { dim: 1000000000 dim: 1000000000 dim: 1000000000 } data: 1"),
              HasSubstr("a blob has the shape 1000000000x"));
  EXPECT_THAT(blob("num: 2 channels: 1 height: 1 width: 1 data: 1"), HasSubstr("a blob of shape 2x1x1x1 has 1 values"));
  EXPECT_THAT(why_no_net(std::string("\x0d\x01\x02\x03\x04", 5)), HasSubstr("field 1 has another type than in caffe.proto"));
}

}  // namespace
}  // namespace troupe::caffe
