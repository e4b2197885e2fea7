// Access to single elements of tensors on the host, for checks and tests. Slow. Tensors in other
// memory are fetched first (at_home).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/bf16.hpp"
#include "ops/device.hpp"
#include "ops/tensor.hpp"

namespace troupe {

// Returns `t` in host memory: `t` itself, or a copy. Blocks until it is written.
inline tensor at_home(device& d, const tensor& t) {
  if (!t.backed() || t.space().host()) return t;
  tensor here = tensor::allocate(d.host(), t.dims(), t.type());
  d.download(t, here.raw_mutable());
  return here;
}
inline double value(const tensor& t, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  if (t.type() == dtype::bf16) return static_cast<double>(to_float(t.data<bf16>()[at]));
  return t.type() == dtype::f64 ? t.data<double>()[at] : static_cast<double>(t.data<float>()[at]);
}
inline bool same_bits(const tensor& a, const tensor& b) {
  return a.dims() == b.dims() && a.type() == b.type() && (a.count() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}
inline bool same_bits(const tensors& a, const tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const tensor& x, const tensor& y) { return bool(x) == bool(y) && (!x || same_bits(x, y)); });
}
inline bool any_nan(const tensor& t) {
  for (std::int64_t i = 0; i < t.count(); ++i)
    if (std::isnan(value(t, i))) return true;
  return false;
}
inline bool floating(const tensor& t) { return t.type() == dtype::f32 || t.type() == dtype::f64 || t.type() == dtype::bf16; }

}  // namespace troupe
