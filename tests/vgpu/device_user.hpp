// A stream of the virtual GPU and blocks of its memory, for tests of kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "ops/cuda/check.hpp"
#include "tests/vgpu/vgpu.hpp"

namespace troupe::vgpu {

// Releases its memory at the end. Copies wait until they are done.
class device_user {
 public:
  device_user() { cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream"); }
  // Of a new virtual GPU.
  explicit device_user(std::uint64_t seed) : device_user((reset(options{.seed = seed}), 0)) {}
  ~device_user() {
    for (auto* p : blocks_) cudaFree(p);
    cudaStreamDestroy(stream);
  }
  device_user(const device_user&) = delete;
  device_user& operator=(const device_user&) = delete;

  // Uninitialised memory for n elements; null if n == 0.
  template <class T, class N>
  T* memory(N n) {
    if (n == 0) return nullptr;
    void* p = nullptr;
    cuda::check(cudaMalloc(&p, static_cast<std::size_t>(n) * sizeof(T)), "memory");
    return static_cast<T*>(blocks_.emplace_back(p));
  }
  // Memory with the elements of v; null if v is empty.
  template <class T>
  T* filled(const std::vector<T>& v) {
    auto* p = memory<T>(v.size());
    if (p) cuda::check(cudaMemcpyAsync(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice, stream), "copy");
    return p;
  }
  // Replaces the elements of v by those of p. p may be null if v is empty.
  template <class T>
  void read(const T* p, std::vector<T>& v) {
    if (p && !v.empty()) cuda::check(cudaMemcpyAsync(v.data(), p, v.size() * sizeof(T), cudaMemcpyDeviceToHost, stream), "copy");
    cuda::check(cudaStreamSynchronize(stream), "wait");
  }
  template <class T, class N>
  std::vector<T> read(const T* p, N n) {
    std::vector<T> v(static_cast<std::size_t>(n));
    read(p, v);
    return v;
  }
  cudaStream_t stream = nullptr;

 private:
  explicit device_user(int) : device_user() {}
  std::vector<void*> blocks_;
};

}  // namespace troupe::vgpu
