// Comparison of kernels with the CPU device, for tests of kernels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

#include "ops/device.hpp"

namespace troupe::vgpu {

template <class T>
tensor cpu_tensor(device& d, const shape& s, const std::vector<T>& v) {
  auto t = tensor::allocate(d, s, dtype_of<T>);
  if (!v.empty()) d.upload(v.data(), t);
  return t;
}
template <class T>
tensor cpu_tensor(device& d, const std::vector<T>& v) {
  return cpu_tensor(d, {static_cast<std::int64_t>(v.size())}, v);
}
template <class T>
std::vector<T> cpu_values(device& d, const tensor& t) {
  std::vector<T> v(static_cast<std::size_t>(t.count()));
  if (!v.empty()) d.download(t, v.data());
  return v;
}

// Equal within 1e-5 (float) or 1e-12 (double) of the largest magnitude; NaN equals NaN, infinities
// are equal.
template <class T>
void expect_close(const char* what, const std::vector<T>& got, const std::vector<T>& want) {
  ASSERT_EQ(got.size(), want.size());
  T largest = 0;
  for (const T w : want) largest = std::isfinite(w) ? std::max(largest, std::abs(w)) : largest;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(got[i])) << what << ": element " << i << " is " << got[i];
    else if (std::isinf(want[i]))
      EXPECT_EQ(got[i], want[i]) << what << ": element " << i;
    else
      EXPECT_NEAR(got[i], want[i], largest * (sizeof(T) == 4 ? 1e-5 : 1e-12)) << what << ": element " << i;
}
// Returns true if all bits are equal.
template <class T>
bool identical(T a, T b) {
  using bits = std::array<std::byte, sizeof(T)>;
  return std::bit_cast<bits>(a) == std::bit_cast<bits>(b);
}
template <class T>
bool identical(const std::vector<T>& a, const std::vector<T>& b) {
  return std::ranges::equal(a, b, [](T x, T y) { return identical(x, y); });
}
// Returns true if all bits are equal, or if both are NaN.
template <class T>
bool same_bits(T a, T b) {
  return identical(a, b) || (a != a && b != b);
}
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return std::ranges::equal(a, b, [](T x, T y) { return same_bits(x, y); });
}
template <class T>
void expect_bits(const char* what, const std::vector<T>& got, const std::vector<T>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(same_bits(got[i], want[i])) << what << ": element " << i << " is " << got[i] << ", not " << want[i];
}

}  // namespace troupe::vgpu
