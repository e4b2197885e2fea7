// Products by cuBLAS, one handle per stream. A handle has a workspace of its own, which is NVIDIA's
// condition for equal bits of equal calls (cuBLAS documentation, "Results Reproducibility"). f32
// products use no tensor cores (CUBLAS_COMPUTE_32F_PEDANTIC).
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
  // workspace: a block of device memory that only this handle uses.
  blas(cudaStream_t s, std::shared_ptr<storage> workspace);

  // c = alpha op(a) op(b) + beta c as in gemm_spec, on device addresses.
  void gemm(const gemm_spec& s, const float* a, const float* b, float* c);
  void gemm(const gemm_spec& s, const double* a, const double* b, double* c);

  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // NVIDIA's advice for sm_90; 4 MiB before

 private:
  struct destroyed {
    void operator()(cublasHandle_t h) const { cublasDestroy(h); }
  };
  std::shared_ptr<storage> workspace_;
  std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, destroyed> handle_;
};

}  // namespace troupe::cuda
