// What libtroupe_cuda.so exports (ops/gpu.hpp).
#include <map>
#include <mutex>
#include <utility>

#include "ops/cuda/bf16_stream.hpp"
#include "ops/cuda/check.hpp"
#include "ops/gpu.hpp"

namespace troupe::cuda {
namespace {

std::string version_text(int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); }

// Without a driver the runtime reports that the driver is too old, and leaves the count unchanged.
std::string why_none(cudaError_t e) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  const auto toolkit = version_text(CUDART_VERSION);
  if (e == cudaErrorNoDevice) return "the NVIDIA driver finds no GPU";
  if (e != cudaErrorInsufficientDriver) return std::string("the GPUs cannot be used: ") + cudaGetErrorString(e);
  if (driver == 0) return "there is no NVIDIA driver on this machine";
  return "the NVIDIA driver supports CUDA " + version_text(driver) + ", and this build needs " + toolkit;
}

int count(std::string& why) {
  int n = 0;
  const auto e = cudaGetDeviceCount(&n);
  cudaGetLastError();
  if (e == cudaSuccess && n > 0) return n;
  why = why_none(e == cudaSuccess ? cudaErrorNoDevice : e);
  return 0;
}

// All devices of one GPU share its memory pool.
std::shared_ptr<device> make(int number) {
  static std::mutex lock;
  static std::map<int, std::weak_ptr<gpu>> open;
  const std::lock_guard guard(lock);
  auto g = open[number].lock();
  if (!g) open[number] = g = std::make_shared<gpu>(number);
  return make_stream_of(std::move(g));
}

}  // namespace
}  // namespace troupe::cuda

extern "C" __attribute__((visibility("default"))) const troupe::gpu_backend* troupe_gpu_backend() {
  static const troupe::gpu_backend b{troupe::gpu_backend::expected_version, troupe::cuda::count, troupe::cuda::make};
  return &b;
}
