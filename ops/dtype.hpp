// Element types. Maths runs in f32, or in f64 for checks on the CPU. bf16 is a storage type of
// activations (docs/precision.md). i32 and u8 hold labels and raw images.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

enum class dtype : std::uint8_t { f32, f64, bf16, i32, u8 };

constexpr std::size_t size_of(dtype t) {
  switch (t) {
    case dtype::f32: return 4;
    case dtype::f64: return 8;
    case dtype::bf16: return 2;
    case dtype::i32: return 4;
    case dtype::u8: return 1;
  }
  return 0;
}
// Size of `elements` elements, for estimates.
constexpr double bytes_of(std::int64_t elements, dtype t) {
  return static_cast<double>(elements) * static_cast<double>(size_of(t));
}

// The type of parameters, sums, statistics and losses where activations have type t: f32 for bf16,
// otherwise t.
constexpr dtype wide_of(dtype t) { return t == dtype::bf16 ? dtype::f32 : t; }

constexpr const char* name_of(dtype t) {
  switch (t) {
    case dtype::f32: return "f32";
    case dtype::f64: return "f64";
    case dtype::bf16: return "bf16";
    case dtype::i32: return "i32";
    case dtype::u8: return "u8";
  }
  return "?";
}

template <class T>
struct dtype_of_t;
template <>
struct dtype_of_t<float> {
  static constexpr dtype value = dtype::f32;
};
template <>
struct dtype_of_t<double> {
  static constexpr dtype value = dtype::f64;
};
template <>
struct dtype_of_t<std::int32_t> {
  static constexpr dtype value = dtype::i32;
};
template <>
struct dtype_of_t<std::uint8_t> {
  static constexpr dtype value = dtype::u8;
};
template <class T>
constexpr dtype dtype_of = dtype_of_t<T>::value;

}  // namespace troupe
