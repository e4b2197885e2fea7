// Bytes as values: value = byte * scale - mean, computed in double once for each of the 256 bytes
// and rounded once to the tensor's type, so that f32 and f64 runs see the same numbers up to that
// rounding.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "runtime/data/source.hpp"

namespace troupe {

class byte_tables {
 public:
  // One pair for all values, or one for each step of an example's outermost axis.
  explicit byte_tables(const byte_scaling& s) {
    for (std::size_t c = 0; c < s.scale.size(); ++c) {
      auto& d = as_double_.emplace_back();
      auto& f = as_float_.emplace_back();
      for (std::size_t i = 0; i < 256; ++i) {
        d[i] = static_cast<double>(i) * s.scale[c] - s.mean[c];
        f[i] = static_cast<float>(d[i]);
      }
    }
  }

  // The values of one example of `n` bytes.
  template <class T>
  void fill(const std::uint8_t* in, std::size_t n, T* out) const {
    const auto& tables = of<T>();
    const auto plane = n / tables.size();
    for (const auto& table : tables)
      for (std::size_t k = 0; k < plane; ++k) *out++ = table[*in++];
  }

 private:
  template <class T>
  const std::vector<std::array<T, 256>>& of() const {
    if constexpr (std::is_same_v<T, double>)
      return as_double_;
    else
      return as_float_;
  }

  std::vector<std::array<double, 256>> as_double_;
  std::vector<std::array<float, 256>> as_float_;
};

}  // namespace troupe
