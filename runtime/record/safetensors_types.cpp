#include "runtime/record/safetensors_types.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <vector>

namespace troupe::detail {
namespace {

using special = small_float::special;

constexpr safetensors_type types[] = {
    {"F64", 64, dtype::f64, {}},
    {"F32", 32, dtype::f32, {}},
    {"BF16", 16, dtype::bf16, {}},
    {"I32", 32, dtype::i32, {}},
    {"U8", 8, dtype::u8, {}},
    {"F16", 16, {}, small_float{5, 10, 15, special::ieee}},
    {"F8_E5M2", 8, {}, small_float{5, 2, 15, special::ieee}},
    {"F8_E4M3", 8, {}, small_float{4, 3, 7, special::last_nan}},
    {"F8_E5M2FNUZ", 8, {}, small_float{5, 2, 16, special::zero_nan}},
    {"F8_E4M3FNUZ", 8, {}, small_float{4, 3, 8, special::zero_nan}},
    {"F8_E8M0", 8, {}, small_float{8, 0, 127, special::power_of_2}},
    {"BOOL", 8, {}, {}},
    {"I8", 8, {}, {}},
    {"I16", 16, {}, {}},
    {"U16", 16, {}, {}},
    {"U32", 32, {}, {}},
    {"I64", 64, {}, {}},
    {"U64", 64, {}, {}},
    {"C64", 64, {}, {}},
    {"F6_E2M3", 6, {}, {}},
    {"F6_E3M2", 6, {}, {}},
    {"F4", 4, {}, {}},
};

bool is_nan(const small_float& t, std::uint32_t exponent, std::uint32_t mantissa, bool negative) {
  const std::uint32_t largest = (1U << t.exponent_bits) - 1, all_ones = (1U << t.mantissa_bits) - 1;
  switch (t.kind) {
    case special::ieee: return exponent == largest && mantissa != 0;
    case special::last_nan: return exponent == largest && mantissa == all_ones;
    case special::zero_nan: return negative && exponent == 0 && mantissa == 0;
    case special::power_of_2: return exponent == largest;
  }
  return false;
}

}  // namespace

const safetensors_type* find_safetensors_type(std::string_view name) {
  const auto* at = std::find_if(std::begin(types), std::end(types), [&](const auto& t) { return t.name == name; });
  return at == std::end(types) ? nullptr : at;
}

const safetensors_type& safetensors_type_of(dtype t) {
  return *std::find_if(std::begin(types), std::end(types), [&](const auto& e) { return e.own == t; });
}

float value_of(const small_float& t, std::uint32_t bits) {
  const auto mantissa = bits & ((1U << t.mantissa_bits) - 1);
  const auto exponent = bits >> t.mantissa_bits & ((1U << t.exponent_bits) - 1);
  const bool negative = t.kind != special::power_of_2 && (bits >> (t.mantissa_bits + t.exponent_bits) & 1U) != 0;
  if (is_nan(t, exponent, mantissa, negative)) return std::numeric_limits<float>::quiet_NaN();
  const float sign = negative ? -1.0F : 1.0F;
  if (t.kind == special::power_of_2) return std::ldexp(1.0F, static_cast<int>(exponent) - t.bias);
  if (t.kind == special::ieee && exponent == (1U << t.exponent_bits) - 1) return sign * std::numeric_limits<float>::infinity();
  const auto whole = exponent == 0 ? mantissa : mantissa | 1U << t.mantissa_bits;  // exponent 0: subnormal
  const int power = std::max(static_cast<int>(exponent), 1) - t.bias - t.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(whole), power);
}

void widen(const safetensors_type& type, const std::uint8_t* from, std::size_t count, float* out) {
  assert(type.small);
  // A table pays only for more values than it has: a file can have a million tensors of one value.
  std::vector<float> table(count < std::size_t{1} << type.bits ? 0 : std::size_t{1} << type.bits);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = value_of(*type.small, static_cast<std::uint32_t>(i));
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = type.bits == 8 ? from[i] : from[2 * i] | static_cast<std::size_t>(from[2 * i + 1]) << 8;
    out[i] = table.empty() ? value_of(*type.small, static_cast<std::uint32_t>(bits)) : table[bits];
  }
}

}  // namespace troupe::detail
