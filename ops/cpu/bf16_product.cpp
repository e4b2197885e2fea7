// Uses AMX tiles if available. Otherwise the reference: operands are rounded, widened, and
// multiplied by the f32 kernels.
#include "ops/cpu/bf16_product.hpp"

#include <cassert>

#include "ops/converted.hpp"
#include "ops/cpu/amx_ops.hpp"

namespace troupe::cpu {

namespace {

// `t` rounded to bf16, in f32: the operand of a product.
tensor rounded(device& d, const tensor& t) { return converted_to(d, converted_to(d, t, dtype::bf16), dtype::f32); }

// Calls f with an f32 tensor whose values then become `to`.
template <class F>
void made_in_f32(device& d, tensor& to, F f) {
  if (to.type() == dtype::f32) return f(to);
  tensor wide = tensor::allocate(d, to.dims(), dtype::f32);
  f(wide);
  d.copy(wide, to);
}

}  // namespace

void gemm_bf16(device& d, const amx_kernels* tiles, const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) {
  if (tiles) return amx_gemm(d, *tiles, s, a, b, c);
  const tensor left = rounded(d, a), right = rounded(d, b);
  made_in_f32(d, c, [&](tensor& sums) {
    const bool gaps = s.ldc != 0 && s.ldc != s.n;  // elements between the rows of c are preserved
    if (c.type() != dtype::f32 && (gaps || s.beta != 0.0)) d.copy(c, sums);
    d.gemm(s, left, right, sums);
  });
}

void conv_forward_bf16(device& d, const amx_kernels* tiles, const conv_geometry& g, const tensor& x, const tensor& w,
                       const tensor& bias, tensor& y) {
  if (tiles) return amx_conv_forward(d, *tiles, g, x, w, bias, y);
  const tensor from = rounded(d, x), weights = rounded(d, w);
  made_in_f32(d, y, [&](tensor& to) { d.conv_forward(g, from, weights, bias, to); });
}

void conv_backward_data_bf16(device& d, const amx_kernels* tiles, const conv_geometry& g, const tensor& dy, const tensor& w,
                             tensor& dx) {
  if (tiles) return amx_conv_backward_data(d, *tiles, g, dy, w, dx);
  const tensor from = rounded(d, dy), weights = rounded(d, w);
  made_in_f32(d, dx, [&](tensor& to) { d.conv_backward_data(g, from, weights, to); });
}

void conv_backward_weights_bf16(device& d, const amx_kernels* tiles, const conv_geometry& g, const tensor& x, const tensor& dy,
                                tensor& dw, bool add) {
  assert(dw.type() == dtype::f32);
  if (tiles) return amx_conv_backward_weights(d, *tiles, g, x, dy, dw, add);
  d.conv_backward_weights(g, rounded(d, x), rounded(d, dy), dw, add);
}

}  // namespace troupe::cpu
