// Products by OpenBLAS; and thin ones, with few rows or a short sum, as linear layers make them of
// small batches: the large matrix is read where it lies, once, where a BLAS copies it first (f32).
#pragma once

#include "ops/cpu/kernels.hpp"
#include "ops/device.hpp"

namespace troupe::cpu {

// Whether thin_gemm takes this product: by its extents alone, so that equal jobs compute alike.
bool is_thin(const gemm_spec& s, bool wide);
// f32 or f64, by OpenBLAS on this thread alone.
void blas_gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c);
// Offsets have 32 bits.
bool offsets_fit(const gemm_spec& s);
void thin_gemm(device& d, const kernels<float>& k, const gemm_spec& s, const float* a, const float* b, float* c);
// c = sum over packets of a^T b, a [packets k, m] and b [packets k, n] dense and `s` one packet's:
// to the bits of thin_gemm() packet by packet and packet_sum.hpp. Offsets of all packets fit.
void thin_gemm_summed(device& d, const kernels<float>& k, const gemm_spec& s, i64 packets, const float* a, const float* b,
                      float* c);

}  // namespace troupe::cpu
