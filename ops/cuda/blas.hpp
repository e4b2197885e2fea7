// Products by cuBLAS, one handle per stream. A handle has a workspace of its own, which is NVIDIA's
// condition for equal bits of equal calls (cuBLAS documentation, "Results Reproducibility").
//   f32   no tensor cores (CUBLAS_COMPUTE_32F_PEDANTIC), unless TF32 is allowed
//   bf16  tensor cores: products of bf16 are exact in f32, and sums are f32, partial ones too
// Errors: std::runtime_error with cuBLAS' message.
// Threads: used with the stream's queue locked.
#pragma once

#include <cublas_v2.h>

#include <memory>
#include <type_traits>

#include "ops/cuda/order.hpp"
#include "ops/device.hpp"

namespace troupe::cuda {

class blas {
 public:
  // workspace: a block of device memory that only this handle uses. tf32: f32 factors may be
  // rounded to TF32.
  blas(cudaStream_t s, std::shared_ptr<storage> workspace, bool tf32);

  // c = alpha op(a) op(b) + beta c as in gemm_spec, on device addresses. c has the type of the
  // factors; of bf16 factors also f32. Throws std::logic_error for other types.
  void gemm(const gemm_spec& s, dtype factors, const void* a, const void* b, dtype result, void* c);

  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // NVIDIA's advice for sm_90; 4 MiB before

 private:
  struct destroyed {
    void operator()(cublasHandle_t h) const { cublasDestroy(h); }
  };
  const bool tf32_;
  std::shared_ptr<storage> workspace_;
  std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, destroyed> handle_;
};

}  // namespace troupe::cuda
