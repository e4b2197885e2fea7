// The JSON header of a safetensors file as a list of entries, in file order. Private to record/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/record/safetensors.hpp"
#include "runtime/record/safetensors_types.hpp"

namespace troupe::detail {

struct safetensors_entry {
  std::string name;
  const safetensors_type* type = nullptr;
  std::optional<shape> dims;
  std::vector<std::uint64_t> offsets;  // begin, end
};

struct safetensors_header {
  metadata_map metadata;
  std::vector<safetensors_entry> entries;
};

// Parses `text`. On failure returns false and sets `error`: the message and the tensor, without a
// file.
bool parse_header(const char* text, std::size_t bytes, safetensors_header& out, record_error& error);

// `s` as a JSON string. Empty if it is not UTF-8.
std::optional<std::string> quoted(const std::string& s);

bool printable(const std::string& s);  // has no control characters, so that it can be quoted in messages

}  // namespace troupe::detail
