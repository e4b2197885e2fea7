// The CPU device: matrix products, with OpenBLAS, or with own kernels for thin or packed products.
#include "ops/cpu/cpu_device.hpp"
#include "ops/cpu/gemm.hpp"

namespace troupe::cpu {

void cpu_device::gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) {
  if (c.type() == dtype::f32 && is_thin(s, wide()))
    return thin_gemm(*this, set_.f32, s, a.data<float>(), b.data<float>(), out<float>(c));
  blas_gemm(s, a, b, c);
}

tensor cpu_device::pack(const gemm_spec& s, const tensor& b) {
  tensor packed;
  run("pack", b, [&](const auto& k, auto v) {
    using T = decltype(v);
    const i64 columns = (s.n + k.panel_width - 1) / k.panel_width * k.panel_width;
    packed = tensor::allocate(*this, shape{s.k * columns + k.slack}, b.type());
    k.pack_panels(s.transpose_b, s.k, s.n, b.data<T>(), s.ldb ? s.ldb : (s.transpose_b ? s.k : s.n), out<T>(packed));
  });
  return packed;
}

void cpu_device::gemm_packed(const gemm_spec& s, const tensor& a, const tensor& packed, tensor& c) {
  assert(s.alpha == 1.0 && (s.beta == 0.0 || s.beta == 1.0));
  run("gemm_packed", c, [&](const auto& k, auto v) {
    using T = decltype(v);
    tensor scratch = tensor::allocate(*this, shape{k.product_scratch}, c.type());
    k.product(s.transpose_a, s.m, s.n, s.k, a.data<T>(), s.lda ? s.lda : (s.transpose_a ? s.m : s.k), packed.data<T>(), out<T>(c),
              s.ldc ? s.ldc : s.n, s.beta != 0.0, out<T>(scratch));
  });
}

// Thin products use the kernel that each packet alone would use (is_thin checks one packet), and
// read b once.
void cpu_device::gemm_stacked(const gemm_spec& s, i64 packets, const tensor& a, const tensor& b, tensor& c) {
  if (packets == 1) return gemm(s, a, b, c);
  gemm_spec all = s;
  all.m *= packets;
  if (c.type() != dtype::f32 || !is_thin(s, wide()) || !offsets_fit(all)) return device::gemm_stacked(s, packets, a, b, c);
  thin_gemm(*this, set_.f32, all, a.data<float>(), b.data<float>(), out<float>(c));
}

// Likewise, and c is written once.
void cpu_device::gemm_summed(const gemm_spec& s, i64 packets, const tensor& a, const tensor& b, tensor& c) {
  if (packets == 1) return gemm(s, a, b, c);
  gemm_spec all = s;
  all.k *= packets;
  if (c.type() != dtype::f32 || !is_thin(s, wide()) || !offsets_fit(all)) return device::gemm_summed(s, packets, a, b, c);
  thin_gemm_summed(*this, set_.f32, s, packets, a.data<float>(), b.data<float>(), out<float>(c));
}

}  // namespace troupe::cpu
