// What libtroupe_cuda.so exports (ops/gpu.hpp).
#include <map>
#include <mutex>
#include <utility>

#include "ops/cuda/bf16_stream.hpp"
#include "ops/cuda/facts.hpp"
#include "ops/gpu.hpp"

namespace troupe::cuda {
namespace {

// Without a driver the runtime reports that the driver is too old, and leaves the count unchanged.
std::string why_none(cudaError_t e) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  const auto toolkit = cuda_version_text(CUDART_VERSION);
  if (e == cudaErrorNoDevice) return "the NVIDIA driver finds no GPU";
  if (e != cudaErrorInsufficientDriver) return std::string("the GPUs cannot be used: ") + cudaGetErrorString(e);
  if (driver == 0) return "there is no NVIDIA driver on this machine";
  return "the NVIDIA driver supports CUDA " + cuda_version_text(driver) + ", and this build needs " + toolkit;
}

int count(std::string& why) {
  int n = 0;
  const auto e = cudaGetDeviceCount(&n);
  cudaGetLastError();
  if (e == cudaSuccess && n > 0) return n;
  why = why_none(e == cudaSuccess ? cudaErrorNoDevice : e);
  return 0;
}

// The GPUs that this process uses. All devices of one GPU share its memory pool.
struct {
  std::mutex lock;
  std::map<int, std::weak_ptr<gpu>> by_number;
} in_use;

std::shared_ptr<device> make(int number) {
  const std::lock_guard guard(in_use.lock);
  auto& slot = in_use.by_number[number];
  auto g = slot.lock();
  if (!g) slot = g = std::make_shared<gpu>(number);
  return make_stream_of(std::move(g));
}

gpu_facts describe(int number, const gpu_facts* earlier) {
  std::shared_ptr<gpu> g;
  {
    const std::lock_guard guard(in_use.lock);
    if (const auto at = in_use.by_number.find(number); at != in_use.by_number.end()) g = at->second.lock();
  }
  return facts_of(number, g.get(), earlier);
}

}  // namespace
}  // namespace troupe::cuda

extern "C" __attribute__((visibility("default"))) const troupe::gpu_backend* troupe_gpu_backend() {
  static const troupe::gpu_backend b{troupe::gpu_backend::expected_version, troupe::cuda::count, troupe::cuda::make,
                                     troupe::cuda::describe, [] { return troupe::cuda::lost_device.load(); }};
  return &b;
}
