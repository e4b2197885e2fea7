// The element types of the safetensors format. Private to record/.
//   own type of Troupe   F64, F32, BF16, I32, U8: a tensor is a view of the file
//   small floats         F16 and the types of 8 bits: every value is one of f32, so a tensor is f32
//   others               integers, BOOL, complex numbers, floats of less than 8 bits: no weights
//                        have them. Their sizes are checked, and the reader gets their names
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ops/dtype.hpp"

namespace troupe::detail {

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

}  // namespace troupe::detail
