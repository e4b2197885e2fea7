// bf16 products and convolutions on AMX tiles (amx.hpp): the implementation of bf16_product.hpp for
// processors with AMX.
// Threads: as device. Scratch memory comes from the device's pool.
#pragma once

#include "ops/cpu/amx.hpp"
#include "ops/device.hpp"

namespace troupe::cpu {

// a, b, c: f32 or bf16. An empty sum is zero.
void amx_gemm(device& d, const amx_kernels& k, const gemm_spec& s, const tensor& a, const tensor& b, tensor& c);

// x, y, dx, dy: f32 or bf16, rounded to bf16 on input; w, dw: f32; bias: f32 or empty.
void amx_conv_forward(device& d, const amx_kernels& k, const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias,
                      tensor& y);
void amx_conv_backward_data(device& d, const amx_kernels& k, const conv_geometry& g, const tensor& dy, const tensor& w, tensor& dx);
void amx_conv_backward_weights(device& d, const amx_kernels& k, const conv_geometry& g, const tensor& x, const tensor& dy,
                               tensor& dw, bool add);

}  // namespace troupe::cpu
