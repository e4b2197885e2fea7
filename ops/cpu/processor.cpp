#include "ops/cpu/processor.hpp"

#include <cblas-openblas.h>
#include <sched.h>

#include <fstream>

#include "ops/device.hpp"

namespace troupe::cpu {
namespace {

unsigned usable_cores() {
  cpu_set_t here;
  return ::sched_getaffinity(0, sizeof here, &here) == 0 ? static_cast<unsigned>(CPU_COUNT(&here)) : 0;
}

std::string best_kernels() {
  for (const char* isa : {"x86-64-v4-amx", "x86-64-v4", "x86-64-v3", "baseline"})
    if (make_cpu_device(isa)) return isa;
  return {};
}

}  // namespace

std::string processor_name() {
  std::ifstream f("/proc/cpuinfo");
  for (std::string line; std::getline(f, line);)
    if (line.rfind("model name", 0) == 0)
      if (const auto at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
  return {};
}

processor_facts describe_processor() { return {processor_name(), usable_cores(), best_kernels()}; }

blas_facts describe_blas() {
  const std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  const auto version_ends = config.find(' ', config.find(' ') + 1);
  const int threading = openblas_get_parallel();
  return {openblas_get_corename(),
          threading == OPENBLAS_SEQUENTIAL ? "serial"
          : threading == OPENBLAS_OPENMP   ? "OpenMP"
                                           : "pthreads",
          config.substr(0, version_ends)};
}

}  // namespace troupe::cpu
