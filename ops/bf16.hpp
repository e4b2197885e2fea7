// bf16, the upper 16 bits of a float: the element of dtype::bf16, and conversions of single values.
// bf16 to float is exact. Float to bf16 rounds to nearest, ties to even: a NaN becomes a quiet NaN
// with the same sign and upper bits, values that are too large become infinite, subnormal numbers
// are preserved. device::copy converts arrays (ops/cpu/half.inl).
#pragma once

#include <bit>
#include <cstdint>

#include "ops/dtype.hpp"

namespace troupe {

struct bf16 {
  std::uint16_t bits = 0;
};
static_assert(sizeof(bf16) == 2);

template <>
struct dtype_of_t<bf16> {
  static constexpr dtype value = dtype::bf16;
};

constexpr float to_float(bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
constexpr bf16 to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>(bits >> 16 | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16)};
}

}  // namespace troupe
