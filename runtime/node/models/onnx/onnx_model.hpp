// An ONNX model as plain structs (github.com/onnx/onnx, onnx/onnx.proto), as far as Troupe reads
// and writes it, and its bytes. Invariants of a parsed model: every tensor has as many values as
// its dims; every list is bounded by the bytes of the file; no subgraphs, functions or sparse
// tensors. FLOAT16 and BFLOAT16 values are read as FLOAT. Values in other files are read by the
// caller.
// Errors: values that name the node, tensor or message. Every length is checked before it is used;
// messages are read to a fixed depth.
// Threads: pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe::onnx {

enum element : std::int32_t {
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  int32 = 6,
  int64 = 7,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  bfloat16 = 16
};

constexpr bool is_real(std::int32_t type) { return type == float32 || type == float64 || type == float16 || type == bfloat16; }

// "FLOAT16"; the number of an unknown type.
std::string element_name(std::int32_t type);

struct tensor_value {
  std::string name;
  std::int32_t type = float32;
  std::vector<std::int64_t> dims;
  std::vector<float> reals;         // of FLOAT, and of DOUBLE rounded
  std::vector<std::int64_t> whole;  // of the other types
  bool uniform = false;             // one value stands for all; never so in a file

  std::int64_t count() const;
  float real(std::int64_t k) const { return reals[uniform ? 0 : static_cast<std::size_t>(k)]; }
  std::int64_t integer(std::int64_t k) const { return whole[uniform ? 0 : static_cast<std::size_t>(k)]; }
};

enum class attribute_kind : std::int32_t {
  none = 0,
  real = 1,
  integer = 2,
  text = 3,
  tensor = 4,
  reals = 6,
  integers = 7,
  texts = 8
};

// size: mirrors AttributeProto
struct attribute {
  std::string name;
  std::int32_t kind = 0;  // an attribute_kind, or another number of AttributeProto.AttributeType
  float real = 0;
  std::int64_t integer = 0;
  std::string text;
  std::shared_ptr<const tensor_value> tensor;
  std::vector<float> reals;
  std::vector<std::int64_t> integers;
  std::vector<std::string> texts;

  bool is(attribute_kind k) const { return kind == static_cast<std::int32_t>(k); }
};

struct node {
  std::string name, op, domain;
  std::vector<std::string> inputs, outputs;  // an empty input or output is absent
  std::vector<attribute> attributes;
};

struct dimension {
  std::int64_t extent = -1;  // -1: not known
  std::string symbol;
};

struct value_info {
  std::string name;
  std::int32_t type = 0;
  bool shaped = false;
  std::vector<dimension> dims;
};

struct graph {
  std::string name;
  std::vector<node> nodes;  // in an order of computation
  std::vector<tensor_value> initializers;
  std::vector<value_info> inputs, outputs;
};

struct model {
  std::int64_t ir_version = 0;
  std::int64_t opset = 0;  // of the default domain; 0: the model has none
  std::string producer, producer_version, about;
  std::vector<std::pair<std::string, std::string>> metadata;  // metadata_props, key and value
  struct graph graph;
};

// The key of ONNX's own list of metadata for the order of a picture's planes, and its
// values.
constexpr const char* pixel_format_key = "Image.BitmapPixelFormat";
constexpr const char* rgb_format = "Rgb8";
constexpr const char* bgr_format = "Bgr8";

constexpr std::int64_t least_opset = 7, most_opset = 21;

// The bytes of a file beside the model, by the `location` that a tensor gives. They must stay until
// parse_model() returns. Error: why the file is not read.
using external_files = std::function<expected<std::span<const std::uint8_t>>(const std::string& location)>;

// `files` may be empty: then values in other files are refused.
expected<model> parse_model(std::span<const std::uint8_t> bytes, const external_files& files = {});
expected<std::string> model_bytes(const model& m);

}  // namespace troupe::onnx
