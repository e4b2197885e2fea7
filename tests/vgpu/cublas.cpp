// cuBLAS of the virtual GPU: the functions that Troupe calls, computed by OpenBLAS, with f32 sums
// of bf16 factors and rounded factors if a product may use TF32. The workspace counts as written by
// each product, so that two streams with one workspace are found.
#include <cblas.h>
#include <cublas_v2.h>

#include <utility>
#include <vector>

#include "ops/bf16.hpp"
#include "tests/vgpu/device_state.hpp"
#include "tests/vgpu/tf32.hpp"

namespace {

struct handle {
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  cublasMath_t mode = CUBLAS_DEFAULT_MATH;
};
handle& of(cublasHandle_t h) { return *reinterpret_cast<handle*>(h); }

// A matrix in device memory, column-major.
struct matrix {
  const void* at;
  cudaDataType type;
  std::int64_t rows, columns, ld;

  std::size_t element() const { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }
  std::size_t bytes() const {
    return rows == 0 || columns == 0 ? 0 : static_cast<std::size_t>((columns - 1) * ld + rows) * element();
  }
};
// c = alpha op(a) op(b) + beta c
struct product {
  CBLAS_TRANSPOSE ta, tb;
  std::int64_t k;
  matrix a, b, c;
  bool tf32;
};

blasint whole(std::int64_t n) { return static_cast<blasint>(n); }

void multiply(const product& p, float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
              float* c, std::int64_t ldc) {
  cblas_sgemm(CblasColMajor, p.ta, p.tb, whole(p.c.rows), whole(p.c.columns), whole(p.k), alpha, a, whole(lda), b, whole(ldb), beta,
              c, whole(ldc));
}

// A matrix of bf16 or f32 in f32, its columns without gaps.
std::vector<float> in_f32(const matrix& m, const void* at, bool tf32) {
  std::vector<float> v;
  v.reserve(static_cast<std::size_t>(m.rows * m.columns));
  for (std::int64_t j = 0; j < m.columns; ++j)
    for (std::int64_t i = 0; i < m.rows; ++i) {
      const auto n = j * m.ld + i;
      const float x =
          m.type == CUDA_R_32F ? static_cast<const float*>(at)[n] : troupe::to_float(static_cast<const troupe::bf16*>(at)[n]);
      v.push_back(tf32 ? troupe::vgpu::to_tf32(x) : x);
    }
  return v;
}

// Factors are converted first, a result that is bf16 last.
void multiply_converted(const product& p, float alpha, const void* a, const void* b, float beta, void* c) {
  const auto wide_a = in_f32(p.a, a, p.tf32), wide_b = in_f32(p.b, b, p.tf32);
  if (p.c.type == CUDA_R_32F)
    return multiply(p, alpha, wide_a.data(), p.a.rows, wide_b.data(), p.b.rows, beta, static_cast<float*>(c), p.c.ld);
  auto wide_c = in_f32(p.c, c, false);
  multiply(p, alpha, wide_a.data(), p.a.rows, wide_b.data(), p.b.rows, beta, wide_c.data(), p.c.rows);
  auto* to = static_cast<troupe::bf16*>(c);
  for (std::int64_t j = 0; j < p.c.columns; ++j)
    for (std::int64_t i = 0; i < p.c.rows; ++i)
      to[j * p.c.ld + i] = troupe::to_bf16(wide_c[static_cast<std::size_t>(j * p.c.rows + i)]);
}

void compute(const product& p, double alpha, const void* a, const void* b, double beta, void* c) {
  thread_local const bool single = (openblas_set_num_threads(1), true);  // more threads add in another order
  (void)single;
  if (p.a.type == CUDA_R_64F)
    cblas_dgemm(CblasColMajor, p.ta, p.tb, whole(p.c.rows), whole(p.c.columns), whole(p.k), alpha, static_cast<const double*>(a),
                whole(p.a.ld), static_cast<const double*>(b), whole(p.b.ld), beta, static_cast<double*>(c), whole(p.c.ld));
  else if (p.a.type == CUDA_R_32F && !p.tf32)
    multiply(p, static_cast<float>(alpha), static_cast<const float*>(a), p.a.ld, static_cast<const float*>(b), p.b.ld,
             static_cast<float>(beta), static_cast<float*>(c), p.c.ld);
  else
    multiply_converted(p, static_cast<float>(alpha), a, b, static_cast<float>(beta), c);
}

CBLAS_TRANSPOSE op(cublasOperation_t o) { return o == CUBLAS_OP_N ? CblasNoTrans : CblasTrans; }

// The combinations of types and arithmetic that Troupe uses.
bool supported(const product& p, cublasComputeType_t compute) {
  if (p.b.type != p.a.type) return false;
  if (p.a.type == CUDA_R_64F) return p.c.type == CUDA_R_64F && compute == CUBLAS_COMPUTE_64F_PEDANTIC;
  if (p.a.type == CUDA_R_16BF) return (p.c.type == CUDA_R_16BF || p.c.type == CUDA_R_32F) && compute == CUBLAS_COMPUTE_32F;
  return p.a.type == CUDA_R_32F && p.c.type == CUDA_R_32F &&
         (compute == CUBLAS_COMPUTE_32F_PEDANTIC || compute == CUBLAS_COMPUTE_32F_FAST_TF32);
}

}  // namespace

using troupe::vgpu::found;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* h) {
  return *h = reinterpret_cast<cublasHandle_t>(new handle), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t h) { return delete &of(h), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t s) { return of(h).stream = s, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t h, void* p, size_t) { return of(h).workspace = p, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t mode) { return of(h).mode = mode, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasGetProperty(libraryPropertyType what, int* value) {
  *value = what == MAJOR_VERSION ? CUBLAS_VER_MAJOR : what == MINOR_VERSION ? CUBLAS_VER_MINOR : CUBLAS_VER_PATCH;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t s) {
  return s == CUBLAS_STATUS_SUCCESS ? "success" : "an error of the virtual GPU";
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n, int64_t k,
                               const void* alpha, const void* a, cudaDataType type_a, int64_t lda, const void* b,
                               cudaDataType type_b, int64_t ldb, const void* beta, void* c, cudaDataType type_c, int64_t ldc,
                               cublasComputeType_t compute_type, cublasGemmAlgo_t) {
  const bool plain_a = ta == CUBLAS_OP_N, plain_b = tb == CUBLAS_OP_N;
  const product p{op(ta),
                  op(tb),
                  k,
                  {a, type_a, plain_a ? m : k, plain_a ? k : m, lda},
                  {b, type_b, plain_b ? k : n, plain_b ? n : k, ldb},
                  {c, type_c, m, n, ldc},
                  compute_type == CUBLAS_COMPUTE_32F_FAST_TF32};
  if (!supported(p, compute_type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (m <= 0 || n <= 0 || k < 0 || lda < p.a.rows || ldb < p.b.rows || ldc < m) return CUBLAS_STATUS_INVALID_VALUE;
  if (!of(h).workspace) found("a product without a workspace of its own");
  if (type_a == CUDA_R_16BF && (of(h).mode & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) == 0)
    found("a product may add partial sums in bf16");
  std::vector<troupe::vgpu::access> uses{{a, false, p.a.bytes()}, {b, false, p.b.bytes()}, {c, true, p.c.bytes()}};
  if (of(h).workspace) uses.push_back({of(h).workspace, true});
  const bool wide = type_a == CUDA_R_64F;
  const auto scalar = [wide](const void* s) {
    return wide ? *static_cast<const double*>(s) : static_cast<double>(*static_cast<const float*>(s));
  };
  const auto *pa = troupe::vgpu::device_memory(a), *pb = troupe::vgpu::device_memory(b);
  auto* pc = troupe::vgpu::device_memory(c);
  troupe::vgpu::enqueue(of(h).stream, "a product", std::move(uses),
                        [=, x = scalar(alpha), y = scalar(beta)] { compute(p, x, pa, pb, y, pc); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
