// Products.
#include "ops/cuda/aligned.hpp"

namespace troupe::cuda {

blas& stream::products() {
  if (!blas_) {
    auto memory = allocate(blas::workspace_bytes);
    workspace_ = static_cast<gpu_block&>(*memory).used;
    workspace_->before_write(*queue_);
    blas_ = std::make_unique<blas>(queue_->stream(), std::move(memory), rules_.tf32);
  }
  return *blas_;
}

void stream::gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) {
  if (s.m == 0 || s.n == 0) return;
  if (a.type() != b.type()) throw std::logic_error("gpu: the factors of a product have different types");
  operation o(*this);
  auto* out = o.address_out(c);
  auto* result = aligned_copy(o, out, c);
  products().gemm(s, a.type(), aligned_copy(o, o.address_in(a), a), aligned_copy(o, o.address_in(b), b), c.type(), result);
  if (result != out) copy_within(o, out, result, c.bytes());
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
