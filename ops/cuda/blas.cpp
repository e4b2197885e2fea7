#include "ops/cuda/blas.hpp"

#include <stdexcept>
#include <string>

namespace troupe::cuda {
namespace {

void check_blas(cublasStatus_t s, const char* what) {
  if (s != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(std::string("cuBLAS: ") + what + ": " + cublasGetStatusString(s));
}

// cuBLAS is column-major: it computes the transpose, c^T = op(b)^T op(a)^T.
template <class T>
void product(cublasHandle_t h, const gemm_spec& s, const T* a, const T* b, T* c, cudaDataType_t type, cublasComputeType_t compute) {
  const auto lda = s.lda ? s.lda : s.transpose_a ? s.m : s.k;
  const auto ldb = s.ldb ? s.ldb : s.transpose_b ? s.k : s.n;
  const auto ldc = s.ldc ? s.ldc : s.n;
  const auto alpha = static_cast<T>(s.alpha), beta = static_cast<T>(s.beta);
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  check_blas(cublasGemmEx_64(h, op(s.transpose_b), op(s.transpose_a), s.n, s.m, s.k, &alpha, b, type, ldb, a, type, lda, &beta, c,
                             type, ldc, compute, CUBLAS_GEMM_DEFAULT),
             "product");
}

}  // namespace

blas::blas(cudaStream_t s, std::shared_ptr<storage> workspace) : workspace_(std::move(workspace)) {
  cublasHandle_t h = nullptr;
  check_blas(cublasCreate(&h), "cublasCreate");
  handle_.reset(h);
  check_blas(cublasSetStream(h, s), "cublasSetStream");
  check_blas(cublasSetWorkspace(h, workspace_->data, workspace_->bytes), "cublasSetWorkspace");
}

void blas::gemm(const gemm_spec& s, const float* a, const float* b, float* c) {
  product(handle_.get(), s, a, b, c, CUDA_R_32F, CUBLAS_COMPUTE_32F_PEDANTIC);
}
void blas::gemm(const gemm_spec& s, const double* a, const double* b, double* c) {
  product(handle_.get(), s, a, b, c, CUDA_R_64F, CUBLAS_COMPUTE_64F_PEDANTIC);
}

}  // namespace troupe::cuda
