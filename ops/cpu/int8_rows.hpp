// Rows of one byte per element, each followed by its scale (device::to_int8).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/tensor.hpp"

namespace troupe::cpu {

template <class T>
void row_to_int8(const T* x, std::int64_t n, std::int8_t* to) {
  float most = 0;
  bool finite = true;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<float>(x[i]);
    finite = finite && std::isfinite(v);
    most = std::max(most, std::abs(v));
  }
  const float scale = finite ? most / 127.0F : std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t i = 0; i < n; ++i)
    to[i] = finite && most > 0 ? static_cast<std::int8_t>(std::lrint(127.0F * (static_cast<float>(x[i]) / most))) : std::int8_t{0};
  std::memcpy(to + n, &scale, sizeof scale);
}

template <class T>
void rows_to_int8(const tensor& x, tensor& bytes) {
  const auto rows = x.dims()[0], each = x.dims().count_from(1);
  auto* to = static_cast<std::int8_t*>(bytes.raw_mutable());
  for (std::int64_t r = 0; r < rows; ++r)
    row_to_int8(x.data<T>() + r * each, each, to + r * (each + static_cast<std::int64_t>(sizeof(float))));
}

template <class T>
void rows_from_int8(const tensor& bytes, tensor& x) {
  const auto rows = x.dims()[0], each = x.dims().count_from(1);
  auto* out = x.mutable_data<T>();
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto* in = static_cast<const std::int8_t*>(bytes.raw()) + r * (each + static_cast<std::int64_t>(sizeof(float)));
    float scale = 0;
    std::memcpy(&scale, in + each, sizeof scale);
    for (std::int64_t i = 0; i < each; ++i) out[r * each + i] = static_cast<T>(static_cast<float>(in[i]) * scale);
  }
}

}  // namespace troupe::cpu
