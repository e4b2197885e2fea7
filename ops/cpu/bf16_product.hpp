// Products of bf16 tensors, or of a bf16 and an f32 tensor, which is rounded to bf16 on input
// (nearest, ties to even). Sums are f32; the result is rounded once if its tensor is bf16. Shapes
// and specs are those of the device's primitives. Bits depend only on the values, the geometry and
// the kind of machine, which device::numerics_id() identifies. tiles: kernels to use; null for the
// f32 kernels of `d`, which must not call these functions for f32 tensors.
// Threads: as device.
// Errors: wrong types assert.
#pragma once

#include "ops/cpu/amx.hpp"
#include "ops/device.hpp"

namespace troupe::cpu {

// a or b is bf16, or both; c is f32 or bf16.
void gemm_bf16(device& d, const amx_kernels* tiles, const gemm_spec& s, const tensor& a, const tensor& b, tensor& c);
// x, y, dy, dx: bf16; w, bias and dw: f32. bias may be empty and is not rounded.
void conv_forward_bf16(device& d, const amx_kernels* tiles, const conv_geometry& g, const tensor& x, const tensor& w,
                       const tensor& bias, tensor& y);
void conv_backward_data_bf16(device& d, const amx_kernels* tiles, const conv_geometry& g, const tensor& dy, const tensor& w,
                             tensor& dx);
void conv_backward_weights_bf16(device& d, const amx_kernels* tiles, const conv_geometry& g, const tensor& x, const tensor& dy,
                                tensor& dw, bool add);

}  // namespace troupe::cpu
