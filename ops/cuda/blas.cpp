#include "ops/cuda/blas.hpp"

#include <stdexcept>
#include <string>

namespace troupe::cuda {
namespace {

void check_blas(cublasStatus_t s, const char* what) {
  if (s != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(std::string("cuBLAS: ") + what + ": " + cublasGetStatusString(s));
}

struct product_types {
  cudaDataType_t factors, result;
  cublasComputeType_t compute;
};
product_types types_of(dtype factors, dtype result, bool tf32) {
  if (factors == dtype::f64 && result == dtype::f64) return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F_PEDANTIC};
  if (factors == dtype::f32 && result == dtype::f32)
    return {CUDA_R_32F, CUDA_R_32F, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F_PEDANTIC};
  if (factors == dtype::bf16 && result == dtype::bf16) return {CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F};
  if (factors == dtype::bf16 && result == dtype::f32) return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
  throw std::logic_error("gpu: a product is given tensors of types that it does not take");
}

// T: the type of alpha and beta. cuBLAS is column-major: it computes the transpose, c^T = op(b)^T
// op(a)^T.
template <class T>
void product(cublasHandle_t h, const gemm_spec& s, const product_types& t, const void* a, const void* b, void* c) {
  const auto lda = s.lda ? s.lda : s.transpose_a ? s.m : s.k;
  const auto ldb = s.ldb ? s.ldb : s.transpose_b ? s.k : s.n;
  const auto ldc = s.ldc ? s.ldc : s.n;
  const auto alpha = static_cast<T>(s.alpha), beta = static_cast<T>(s.beta);
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  check_blas(cublasGemmEx_64(h, op(s.transpose_b), op(s.transpose_a), s.n, s.m, s.k, &alpha, b, t.factors, ldb, a, t.factors, lda,
                             &beta, c, t.result, ldc, t.compute, CUBLAS_GEMM_DEFAULT),
             "product");
}

}  // namespace

blas::blas(cudaStream_t s, std::shared_ptr<storage> workspace, bool tf32) : tf32_(tf32), workspace_(std::move(workspace)) {
  cublasHandle_t h = nullptr;
  check_blas(cublasCreate(&h), "cublasCreate");
  handle_.reset(h);
  check_blas(cublasSetStream(h, s), "cublasSetStream");
  check_blas(cublasSetWorkspace(h, workspace_->data, workspace_->bytes), "cublasSetWorkspace");
  check_blas(cublasSetMathMode(h, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION), "cublasSetMathMode");
}

void blas::gemm(const gemm_spec& s, dtype factors, const void* a, const void* b, dtype result, void* c) {
  const auto t = types_of(factors, result, tf32_);
  if (factors == dtype::f64)
    product<double>(handle_.get(), s, t, a, b, c);
  else
    product<float>(handle_.get(), s, t, a, b, c);
}

}  // namespace troupe::cuda
