// Prints one JSON line with the speed of this CPU and of the OpenBLAS that Troupe is linked with:
// the peak of multiply-adds in registers and of OpenBLAS' sgemm, with one thread and with two, in
// GFLOP/s. bench/environment.py runs it. It takes less than a second.
#include <cblas-openblas.h>
#include <dlfcn.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <barrier>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "ops/device.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

volatile float sink;  // volatile: a value stored here must be computed

constexpr long turns = 1 << 20;
struct fma_loop {
  const char* instructions;
  double flops;  // of one call
  void (*call)();
};

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

fma_loop best_loop() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {"AVX-512", 2.0 * 16 * 16 * turns, fma_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {"AVX2", 2.0 * 12 * 8 * turns, fma_avx2};
#endif
  return {"baseline", 2.0 * 48 * turns, multiply_add_baseline};
}

// `make` returns each thread's call. All threads begin a window together; it ends with the last of
// them. Returns the rate of the best window.
double gflops(int threads, int windows, double flops, const std::function<std::function<void()>()>& make) {
  clock_type::time_point begin;
  double least = 1e30;
  bool began = false;
  const auto between = [&]() noexcept {
    const auto now = clock_type::now();
    if (began) least = std::min(least, std::chrono::duration<double>(now - begin).count());
    began = true;
    begin = clock_type::now();
  };
  std::barrier meet(threads, between);
  const auto work = [&] {
    const auto call = make();
    call();  // warm-up: pages, and the CPU's frequency
    meet.arrive_and_wait();
    for (int i = 0; i < windows; ++i) {
      call();
      meet.arrive_and_wait();
    }
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  others.clear();
  return 1e-9 * flops * threads / least;
}

std::function<void()> sgemm() {
  constexpr int n = 1024;
  openblas_set_num_threads(1);  // of the calling thread in OpenMP builds, like Troupe's own threads
  const auto matrix = [] {
    std::vector<float> m(n * n);
    for (std::size_t i = 0; i < m.size(); ++i) m[i] = static_cast<float>(i % 17) - 8;
    return m;
  };
  return [a = matrix(), b = matrix(), c = matrix()]() mutable {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0F, a.data(), n, b.data(), n, 0.0F, c.data(), n);
  };
}

std::string library() {
  Dl_info found{};
  return dladdr(reinterpret_cast<const void*>(&openblas_get_config), &found) != 0 ? found.dli_fname : "";
}

}  // namespace

int main() {
  const auto loop = best_loop();
  nlohmann::ordered_json said = {{"corename", openblas_get_corename()},
                                 {"config", openblas_get_config()},
                                 {"library", library()},
                                 {"numerics", troupe::make_cpu_device()->numerics_id()},
                                 {"fma_instructions", loop.instructions}};
  for (const int threads : {1, 2}) {
    said["fma_gflops"].push_back(gflops(threads, 20, loop.flops, [&] { return loop.call; }));
    said["sgemm_gflops"].push_back(gflops(threads, 10, 2.0 * 1024 * 1024 * 1024, sgemm));
  }
  std::puts(said.dump().c_str());
}
