// The text format of Protocol Buffers (prototxt), read without a schema: a message is its fields in
// the order of the file, each with its position.
//   name: value   name { ... }   name: < ... >   name: [1, 2]   # comment
// Values are words (enums, true), numbers and strings ("a" 'b' are one string). A list is a field
// per element. Extensions and google.protobuf.Any ([name]) are refused.
// Errors: diagnostics; the first mistake ends the reading.
// Bounds: max_depth, max_fields; memory is proportional to the text.
// Threads: pure functions; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe::caffe {

constexpr int max_depth = 32;
constexpr std::size_t max_fields = 1 << 20;

struct proto_field {
  enum class kind { word, number, text, message, blob };
  std::string name;
  kind what = kind::message;
  std::string text;                 // of a word, number or text; of a blob (wire.hpp) its index
  std::vector<proto_field> fields;  // of a message
  int line = 0, column = 0;         // of the name; 0: not from a text
};

// The text as a message without a name.
expected<proto_field, diagnostics> parse_prototxt(std::string_view text, const std::string& file);

// The text of a message, which parse_prototxt() reads as the same message. Blobs are left out.
std::string prototxt_of(const proto_field& message);

}  // namespace troupe::caffe
