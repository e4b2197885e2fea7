// TF32, the type of f32 factors on tensor cores: f32's exponent, 10 bits of mantissa.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace troupe::vgpu {

// Rounds to nearest, ties to even.
inline float to_tf32(float x) {
  if (!std::isfinite(x)) return x;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0xfffU + (bits >> 13 & 1U)) & ~0x1fffU);
}

}  // namespace troupe::vgpu
