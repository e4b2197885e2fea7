// Products.
#include "ops/cuda/aligned.hpp"

namespace troupe::cuda {

blas& stream::products() {
  if (!blas_) {
    auto memory = allocate(blas::workspace_bytes);
    workspace_ = static_cast<gpu_block&>(*memory).used;
    workspace_->before_write(*queue_);
    blas_ = std::make_unique<blas>(queue_->stream(), std::move(memory));
  }
  return *blas_;
}

void stream::gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) {
  if (s.m == 0 || s.n == 0) return;
  operation o(*this);
  by_type(c.type(), [&](auto t) {
    using T = decltype(t);
    auto* out = o.out<T>(c);
    auto* result = aligned_copy(o, out, c);
    products().gemm(s, aligned_copy(o, o.in<T>(a), a), aligned_copy(o, o.in<T>(b), b), result);
    if (result != out) copy_within(o, out, result, c.bytes());
  });
}

// cuBLAS promises no row-by-row equality of products of different heights, so packets are computed
// one by one.
tensor stream::pack(const gemm_spec& s, const tensor& b) { return device::pack(s, b); }
void stream::gemm_packed(const gemm_spec& s, const tensor& a, const tensor& packed, tensor& c) {
  device::gemm_packed(s, a, packed, c);
}
void stream::gemm_stacked(const gemm_spec& s, std::int64_t packets, const tensor& a, const tensor& b, tensor& c) {
  device::gemm_stacked(s, packets, a, b, c);
}
void stream::gemm_summed(const gemm_spec& s, std::int64_t packets, const tensor& a, const tensor& b, tensor& c) {
  device::gemm_summed(s, packets, a, b, c);
}

}  // namespace troupe::cuda
