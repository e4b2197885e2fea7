// The JSON header of a safetensors file, as a list of entries in its order. Private to record/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/record/safetensors.hpp"

namespace troupe::detail {

struct safetensors_entry {
  std::string name;
  std::optional<dtype> type;
  bool number = false;  // I64, which no tensor of ours has: checked as `type`, of the same size, and not given to the reader
  std::optional<shape> dims;
  std::vector<std::uint64_t> offsets;  // begin, end
};

struct safetensors_header {
  metadata_map metadata;
  std::vector<safetensors_entry> entries;
};

// Parses `text`. On false `error` (its file left empty) says what is wrong and with which tensor.
bool parse_header(const char* text, std::size_t bytes, safetensors_header& out, record_error& error);

// `s` as a JSON string, or nothing when it is not UTF-8.
std::optional<std::string> quoted(const std::string& s);

const char* safetensors_name(dtype t);  // "F32"

bool printable(const std::string& s);  // without control characters: names stand in messages

}  // namespace troupe::detail
