// Prints one JSON line with the speed of this CPU and of the OpenBLAS that Troupe is linked with:
// the peak of multiply-adds in registers and of OpenBLAS' sgemm, with one thread and with two, in
// GFLOP/s. bench/environment.py runs it. It takes less than a second.
#include <cblas-openblas.h>
#include <dlfcn.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "ops/cpu/multiply_adds.hpp"
#include "ops/device.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

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
  const auto loop = troupe::cpu::best_multiply_adds();
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
