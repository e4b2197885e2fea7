// bf16: the upper half of a float. The element of tensors of dtype::bf16, and its two conversions
// for one value: exact to float, to the nearest, ties to even, from it; a NaN stays one (a quiet
// one, of its sign and upper bits), what is too large becomes infinite, and subnormal numbers are
// kept. Arrays: device::copy (ops/cpu/half.inl).
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
