// Shared computation of normalising layers. x is [outer, mid, inner]; each mid has its own mean and
// r = 1 / sqrt(variance + epsilon).
#pragma once

#include "ops/layer_support.hpp"

namespace troupe {

struct normal_extents {
  std::int64_t outer = 1, mid = 1, inner = 1;
  std::int64_t count() const { return outer * inner; }  // number of elements per mean
};

// xhat = (x - mean) r
inline tensor standardised(device& d, const normal_extents& e, const tensor& x, const tensor& mean, const tensor& r) {
  const auto type = wide_of(x.type());
  tensor shift = tensor::allocate(d, mean.dims(), type), xhat = tensor::allocate(d, x.dims(), type);
  d.apply(binary::multiply, mean, r, shift);
  d.scale(-1.0, shift);
  d.blend(e.outer, e.mid, e.inner, x, r, {}, {}, shift, xhat);
  return xhat;
}

// The same with the mean and variance of x, which are saved for backward as s.extra = {mean, r}.
inline tensor standardised(device& d, const normal_extents& e, double epsilon, const tensor& x, saved& s) {
  tensor mean = tensor::allocate(d, shape{e.mid}, wide_of(x.type())), r = tensor::allocate(d, shape{e.mid}, wide_of(x.type()));
  d.moments(e.outer, e.mid, e.inner, x, mean, r);
  d.map(unary::inverse_root, epsilon, r, r);
  s.extra = {mean, r};
  return standardised(d, e, x, mean, r);
}

// Computes dx = r (g - mean of g - xhat mean of (g xhat)), g = dy scale, from the sums of g and of
// g xhat. `dx` may be g. Ioffe and Szegedy 2015, section 3 (the derivatives through mean and
// variance combined).
inline void standardised_backward(device& d, const normal_extents& e, const tensor& g, const tensor& xhat, const tensor& r,
                                  const tensor& sum_g, const tensor& sum_g_xhat, double count, tensor& dx) {
  tensor slope = tensor::allocate(d, r.dims(), r.type()), shift = tensor::allocate(d, r.dims(), r.type());
  d.apply(binary::multiply, r, sum_g_xhat, slope);
  d.scale(-1.0 / count, slope);
  d.apply(binary::multiply, r, sum_g, shift);
  d.scale(-1.0 / count, shift);
  d.blend(e.outer, e.mid, e.inner, g, r, xhat, slope, shift, dx);
}

}  // namespace troupe
