// Matrix products with OpenBLAS, and with own kernels for thin ones (few rows or a short sum), as
// in linear layers with small batches. The thin kernels read the large matrix once and in place,
// where a BLAS would copy it first. f32 only.
#pragma once

#include "ops/cpu/kernels.hpp"
#include "ops/device.hpp"

namespace troupe::cpu {

// Returns true if thin_gemm computes this product. Depends only on the extents, so that equal jobs
// use equal kernels.
bool is_thin(const gemm_spec& s, bool wide);
// f32 or f64, with OpenBLAS on the calling thread only.
void blas_gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c);
// Returns true if all offsets fit into 32 bits.
bool offsets_fit(const gemm_spec& s);
void thin_gemm(device& d, const kernels<float>& k, const gemm_spec& s, const float* a, const float* b, float* c);
// c = sum over packets of a^T b, for dense a [packets k, m] and b [packets k, n]; `s` describes one
// packet. Bit-identical to thin_gemm() per packet and packet_sum.hpp. Offsets of all packets must
// fit.
void thin_gemm_summed(device& d, const kernels<float>& k, const gemm_spec& s, i64 packets, const float* a, const float* b,
                      float* c);

}  // namespace troupe::cpu
