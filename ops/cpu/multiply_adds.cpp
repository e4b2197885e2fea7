#include "ops/cpu/multiply_adds.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <iterator>

namespace troupe::cpu {
namespace {

constexpr long turns = 1 << 20;

// Volatile: a value stored here must be computed.
thread_local volatile float sink;

// Every accumulator converges to 1. Their number hides the latency of two units (4 to 5 cycles) and
// fits the registers.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) void fma_avx512() {
  const __m512 a = _mm512_set1_ps(0.75F), b = _mm512_set1_ps(0.25F);
  __m512 x[16];
  for (auto& v : x) v = _mm512_set1_ps(2.0F);
  for (long i = 0; i < turns; ++i)
#pragma GCC unroll 16
    for (auto& v : x) v = _mm512_fmadd_ps(v, a, b);
  for (int i = 1; i < 16; ++i) x[0] = _mm512_add_ps(x[0], x[i]);
  sink = _mm512_cvtss_f32(x[0]);
}

__attribute__((target("avx2,fma"))) void fma_avx2() {
  const __m256 a = _mm256_set1_ps(0.75F), b = _mm256_set1_ps(0.25F);
  __m256 x[12];
  for (auto& v : x) v = _mm256_set1_ps(2.0F);
  for (long i = 0; i < turns; ++i)
#pragma GCC unroll 12
    for (auto& v : x) v = _mm256_fmadd_ps(v, a, b);
  for (int i = 1; i < 12; ++i) x[0] = _mm256_add_ps(x[0], x[i]);
  sink = _mm256_cvtss_f32(x[0]);
}
#endif

void multiply_add_baseline() {
  float x[48];
  std::fill(std::begin(x), std::end(x), 2.0F);
  for (long i = 0; i < turns; ++i)
    for (auto& v : x) v = v * 0.75F + 0.25F;
  float sum = 0;
  for (const auto v : x) sum += v;
  sink = sum;
}

}  // namespace

multiply_adds best_multiply_adds() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {"AVX-512", 2.0 * 16 * 16 * turns, fma_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {"AVX2", 2.0 * 12 * 8 * turns, fma_avx2};
#endif
  return {"baseline", 2.0 * 48 * turns, multiply_add_baseline};
}

}  // namespace troupe::cpu
