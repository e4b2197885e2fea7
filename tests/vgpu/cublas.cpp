// cuBLAS of the virtual GPU: the functions that Troupe calls, computed by OpenBLAS. The workspace
// counts as written by each product, so that two streams with one workspace are found.
#include <cblas.h>
#include <cublas_v2.h>

#include <utility>
#include <vector>

#include "tests/vgpu/device_state.hpp"

namespace {

struct handle {
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
};
handle& of(cublasHandle_t h) { return *reinterpret_cast<handle*>(h); }

template <class T>
T scalar(const void* p) {
  return *static_cast<const T*>(p);
}
// c = alpha op(a) op(b) + beta c, column-major.
struct product {
  CBLAS_TRANSPOSE ta, tb;
  blasint m, n, k, lda, ldb, ldc;
};

void multiply(const product& p, float alpha, const float* a, const float* b, float beta, float* c) {
  cblas_sgemm(CblasColMajor, p.ta, p.tb, p.m, p.n, p.k, alpha, a, p.lda, b, p.ldb, beta, c, p.ldc);
}
void multiply(const product& p, double alpha, const double* a, const double* b, double beta, double* c) {
  cblas_dgemm(CblasColMajor, p.ta, p.tb, p.m, p.n, p.k, alpha, a, p.lda, b, p.ldb, beta, c, p.ldc);
}

template <class T>
void enqueue_product(cudaStream_t s, std::vector<troupe::vgpu::access> uses, const product& p, const void* alpha, const void* a,
                     const void* b, const void* beta, void* c) {
  const auto* pa = static_cast<const T*>(troupe::vgpu::device_memory(a));
  const auto* pb = static_cast<const T*>(troupe::vgpu::device_memory(b));
  auto* pc = static_cast<T*>(troupe::vgpu::device_memory(c));
  troupe::vgpu::enqueue(s, "a product", std::move(uses), [=, x = scalar<T>(alpha), y = scalar<T>(beta)] {
    thread_local const bool single = (openblas_set_num_threads(1), true);  // more threads add in another order
    (void)single;
    multiply(p, x, pa, pb, y, pc);
  });
}

CBLAS_TRANSPOSE op(cublasOperation_t o) { return o == CUBLAS_OP_N ? CblasNoTrans : CblasTrans; }

}  // namespace

using troupe::vgpu::found;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* h) {
  return *h = reinterpret_cast<cublasHandle_t>(new handle), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t h) { return delete &of(h), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t s) { return of(h).stream = s, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t h, void* p, size_t) { return of(h).workspace = p, CUBLAS_STATUS_SUCCESS; }
const char* cublasGetStatusString(cublasStatus_t s) {
  return s == CUBLAS_STATUS_SUCCESS ? "success" : "an error of the virtual GPU";
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n, int64_t k,
                               const void* alpha, const void* a, cudaDataType type_a, int64_t lda, const void* b,
                               cudaDataType type_b, int64_t ldb, const void* beta, void* c, cudaDataType type_c, int64_t ldc,
                               cublasComputeType_t compute, cublasGemmAlgo_t) {
  const bool wide = type_a == CUDA_R_64F;
  if (type_b != type_a || type_c != type_a || (type_a != CUDA_R_32F && !wide)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (compute != (wide ? CUBLAS_COMPUTE_64F_PEDANTIC : CUBLAS_COMPUTE_32F_PEDANTIC)) found("a product may use tensor cores");
  if (m <= 0 || n <= 0 || k < 0 || lda < (ta == CUBLAS_OP_N ? m : k) || ldb < (tb == CUBLAS_OP_N ? k : n) || ldc < m)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!of(h).workspace) found("a product without a workspace of its own");
  std::vector<troupe::vgpu::access> uses{{a, false}, {b, false}, {c, true}};
  if (of(h).workspace) uses.push_back({of(h).workspace, true});
  const product p{op(ta),
                  op(tb),
                  static_cast<blasint>(m),
                  static_cast<blasint>(n),
                  static_cast<blasint>(k),
                  static_cast<blasint>(lda),
                  static_cast<blasint>(ldb),
                  static_cast<blasint>(ldc)};
  if (wide)
    enqueue_product<double>(of(h).stream, std::move(uses), p, alpha, a, b, beta, c);
  else
    enqueue_product<float>(of(h).stream, std::move(uses), p, alpha, a, b, beta, c);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
