// Matrix products with OpenBLAS.
#include <cblas-openblas.h>
#include <cstdio>
#include <cstdlib>

#include "ops/cpu/gemm.hpp"

namespace troupe::cpu {

void blas_gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) {
  // OpenMP has a thread count per thread, so it is set once in each thread that calls OpenBLAS.
  thread_local const bool single = (openblas_set_num_threads(1), true);
  (void)single;
  const auto size = [](i64 n) { return static_cast<blasint>(n); };
  const auto transpose = [](bool t) { return t ? CblasTrans : CblasNoTrans; };
  const auto lda = size(s.lda ? s.lda : (s.transpose_a ? s.m : s.k)), ldb = size(s.ldb ? s.ldb : (s.transpose_b ? s.k : s.n)),
             ldc = size(s.ldc ? s.ldc : s.n);
  if (c.type() == dtype::f32) {
    cblas_sgemm(CblasRowMajor, transpose(s.transpose_a), transpose(s.transpose_b), size(s.m), size(s.n), size(s.k),
                static_cast<float>(s.alpha), a.data<float>(), lda, b.data<float>(), ldb, static_cast<float>(s.beta),
                c.mutable_data<float>(), ldc);
  } else if (c.type() == dtype::f64) {
    cblas_dgemm(CblasRowMajor, transpose(s.transpose_a), transpose(s.transpose_b), size(s.m), size(s.n), size(s.k), s.alpha,
                a.data<double>(), lda, b.data<double>(), ldb, s.beta, c.mutable_data<double>(), ldc);
  } else {
    std::fprintf(stderr, "troupe cpu device: gemm of %s is not supported\n", name_of(c.type()));
    std::abort();
  }
}

}  // namespace troupe::cpu
