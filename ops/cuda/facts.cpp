#include "ops/cuda/facts.hpp"

#include <cublas_v2.h>
#include <cudnn.h>

#include <optional>

#include "ops/cuda/check.hpp"
#include "ops/cuda/nvml.hpp"

namespace troupe::cuda {
namespace {

std::string cublas_version() {
  std::string text;
  for (const auto part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
    int v = 0;
    if (cublasGetProperty(part, &v) != CUBLAS_STATUS_SUCCESS) return {};
    text += (text.empty() ? "" : ".") + std::to_string(v);
  }
  return text;
}

std::string cudnn_version() {  // 91900: "9.19.0"
  const auto v = cudnnGetVersion();
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

// Without what changes while the process runs.
gpu_facts constants_of(int number) {
  gpu_facts f;
  const auto p = properties_of(number);
  f.name = p.name;
  f.numerics_id = numerics_id_of(p);
  f.major = p.major, f.minor = p.minor;
  f.multiprocessors = p.multiProcessorCount;
  f.memory_total = p.totalGlobalMem;
  char bus[32] = {};
  check(cudaDeviceGetPCIBusId(bus, sizeof bus, number), "cudaDeviceGetPCIBusId");
  f.bus = bus;
  int kilohertz = 0, driver = 0;
  if (cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, number) == cudaSuccess) f.clock_mhz = kilohertz / 1000.0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess) f.driver_cuda = cuda_version_text(driver);
  f.driver = nvml::get().driver();
  f.cuda = cuda_version_text(CUDART_VERSION);
  f.cublas = cublas_version();
  f.cudnn = cudnn_version();
  return f;
}

}  // namespace

std::string cuda_version_text(int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); }

gpu_facts facts_of(int number, const gpu* open, const gpu_facts* earlier) {
  auto f = earlier ? *earlier : constants_of(number);
  f.pool = open ? std::optional(open->memory->statistics()) : std::nullopt;
  f.memory_free.reset();
  f.failure.clear();
  f.sensors = nvml::get().read(f.bus);
  try {
    const current_device here(number);
    std::size_t left = 0, total = 0;
    check(cudaMemGetInfo(&left, &total), "cudaMemGetInfo");
    f.memory_free = left;
  } catch (const cuda_error& e) {
    cudaGetLastError();
    f.failure = e.what();
  }
  return f;
}

}  // namespace troupe::cuda
