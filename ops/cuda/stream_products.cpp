// Products, and convolutions composed of them.
#include "ops/cuda/stream.hpp"

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

namespace {

// cuBLAS chooses its method by the alignment of addresses, too. Operands of equal alignment get
// equal bits wherever they are.
constexpr std::uintptr_t alignment = 16;

void copy_within(operation& o, void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, o), "copy");
}
bool aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % alignment == 0; }

// `p` itself, or an aligned copy.
template <class T>
T* aligned_copy(operation& o, T* p, const tensor& t) {
  if (aligned(p)) return p;
  auto* copy = o.scratch(t.bytes());
  copy_within(o, copy, p, t.bytes());
  return static_cast<T*>(copy);
}

}  // namespace

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

void stream::conv_forward(const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias, tensor& y) {
  device::conv_forward(g, x, w, bias, y);
}
void stream::conv_backward_data(const conv_geometry& g, const tensor& dy, const tensor& w, tensor& dx) {
  device::conv_backward_data(g, dy, w, dx);
}
void stream::conv_backward_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add) {
  device::conv_backward_weights(g, x, dy, dw, add);
}
void stream::conv_backward_parameters(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, tensor& db, bool add) {
  device::conv_backward_parameters(g, x, dy, dw, db, add);
}
void stream::conv_tail_forward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& bias,
                               tensor& y, tensor& index) {
  device::conv_tail_forward(g, t, x, w, bias, y, index);
}
void stream::conv_tail_backward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& y,
                                const tensor& index, const tensor& dy, tensor& dx, tensor& dw, tensor& db) {
  device::conv_tail_backward(g, t, x, w, y, index, dy, dx, dw, db);
}

}  // namespace troupe::cuda
