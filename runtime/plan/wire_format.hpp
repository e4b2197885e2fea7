// The encoding of activations and their gradients on an edge between nodes (`wire` of the producing
// layer): unchanged, or in fewer bytes.
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/dtype.hpp"
#include "ops/shape.hpp"

namespace troupe {

enum class wire_format : std::uint8_t { as_is, bf16, int8 };

inline wire_format wire_format_of(std::string_view name) {
  return name == "bf16" ? wire_format::bf16 : name == "int8" ? wire_format::int8 : wire_format::as_is;
}
constexpr const char* name_of(wire_format f) { return f == wire_format::bf16 ? "bf16" : f == wire_format::int8 ? "int8" : "as is"; }

// Shape and type of a tensor as it is sent. int8: one byte per element, and after each example its
// scale.
inline dtype wire_dtype(wire_format f, dtype t) {
  return f == wire_format::bf16 ? dtype::bf16 : f == wire_format::int8 ? dtype::u8 : t;
}
inline shape wire_dims(wire_format f, const shape& s) {
  return f == wire_format::int8 ? shape{s[0], s.count_from(1) + std::int64_t{sizeof(float)}} : s;
}
inline std::int64_t wire_bytes(wire_format f, const shape& s, dtype t) {
  return wire_dims(f, s).count() * static_cast<std::int64_t>(size_of(wire_dtype(f, t)));
}

}  // namespace troupe
