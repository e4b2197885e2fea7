// The JSON header of a safetensors file as a list of entries, in file order. Private to record/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/dtype.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe::detail {

// The element types of the safetensors format. Private to record/.
//   own type of Troupe   F64, F32, BF16, I32, U8: a tensor is a view of the file
//   small floats         F16 and the types of 8 bits: every value is one of f32, so a tensor is f32
//   others               integers, BOOL, complex numbers, floats of less than 8 bits: no weights
//                        have them. Their sizes are checked, and the reader gets their names

// A float of 8 or 16 bits, sign first.
struct small_float {
  int exponent_bits, mantissa_bits, bias;
  enum class special : std::uint8_t {
    ieee,        // the largest exponent is infinity and NaN
    last_nan,    // the bits of the largest magnitude are NaN; there is no infinity
    zero_nan,    // the bits of minus zero are NaN; there is no infinity
    power_of_2,  // no sign and no mantissa; the largest exponent is NaN
  } kind;
};

struct safetensors_type {
  std::string_view name;  // "F32"
  std::uint64_t bits;     // of an element
  std::optional<dtype> own;
  std::optional<small_float> small;

  bool read() const { return own || small; }
};

const safetensors_type* find_safetensors_type(std::string_view name);  // null: the format has no such type
const safetensors_type& safetensors_type_of(dtype t);

float value_of(const small_float& type, std::uint32_t bits);
// `count` elements of `type`, which is a small float, from little-endian bytes.
void widen(const safetensors_type& type, const std::uint8_t* from, std::size_t count, float* out);

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
