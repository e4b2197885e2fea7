// Tensors of bf16 for tests.
#pragma once

#include <limits>

#include "tests/ops/support.hpp"

namespace troupe::test {

inline tensor converted(device& d, const tensor& x, dtype t) {
  tensor y = tensor::allocate(d, x.dims(), t);
  d.copy(x, y);
  return y;
}
inline tensor half_gaussian(device& d, shape s, std::uint64_t key) {
  return converted(d, gaussian(d, s, key, dtype::f32), dtype::bf16);
}
inline tensor poisoned(device& d, shape s, dtype t) {
  tensor x = tensor::allocate(d, s, t);
  d.fill(std::numeric_limits<double>::quiet_NaN(), x);
  return x;
}

}  // namespace troupe::test
