// Products of bf16 tensors, or of one with an f32 one, which is rounded on the way in (to the
// nearest, ties to even): sums in f32, whose result is rounded once where it goes to a bf16 tensor.
// Shapes and the meaning of the specs are those of the device's primitives. Bits are a function of
// the values and the geometry alone, on one kind of machine: device::numerics_id says which. tiles:
// where they are computed, null for the kernels of f32 (d, which must not come back here for f32
// tensors).
// Threads: as device. Errors: wrong types assert.
#pragma once

#include "ops/cpu/amx.hpp"
#include "ops/device.hpp"

namespace troupe::cpu {

// a or b, or both, bf16; c: f32 or bf16.
void gemm_bf16(device& d, const amx_kernels* tiles, const gemm_spec& s, const tensor& a, const tensor& b, tensor& c);
// x, y, dy, dx: bf16; w, bias and dw: f32. bias may be empty; it is not rounded.
void conv_forward_bf16(device& d, const amx_kernels* tiles, const conv_geometry& g, const tensor& x, const tensor& w,
                       const tensor& bias, tensor& y);
void conv_backward_data_bf16(device& d, const amx_kernels* tiles, const conv_geometry& g, const tensor& dy, const tensor& w,
                             tensor& dx);
void conv_backward_weights_bf16(device& d, const amx_kernels* tiles, const conv_geometry& g, const tensor& x, const tensor& dy,
                                tensor& dw, bool add);

}  // namespace troupe::cpu
