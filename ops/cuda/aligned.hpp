// Aligned addresses for cuBLAS and cuDNN. Both choose their method by the alignment of addresses,
// too: operands of equal alignment get equal bits wherever they are.
#pragma once

#include "ops/cuda/stream.hpp"

namespace troupe::cuda {

inline void copy_within(operation& o, void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, o), "copy");
}

// `p`, the address of t's values, if it is a multiple of dnn::alignment; otherwise that of an
// aligned copy, which belongs to the operation.
template <class T>
T* aligned_copy(operation& o, T* p, const tensor& t) {
  if (reinterpret_cast<std::uintptr_t>(p) % dnn::alignment == 0) return p;
  auto* copy = o.scratch(t.bytes());
  copy_within(o, copy, p, t.bytes());
  return static_cast<T*>(copy);
}

}  // namespace troupe::cuda
