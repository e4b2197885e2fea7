// State of the virtual GPUs, for the fake libraries (cudart.cpp and others) and for launch().
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/vgpu/vgpu.hpp"

namespace troupe::vgpu {

// A use of device memory: `at` is an address in a block, which has at least `bytes` from there on.
// Otherwise that is a finding, and the operation is not run.
struct access {
  const void* at;
  bool writes;
  std::size_t bytes = 0;
};

// The place at which kernels and host functions of the virtual GPU access device memory. Aborts,
// after a finding, if `p` is no device address.
void* device_memory(const void* p);

// Appends an operation to a stream: checks the order of its uses, and runs it later.
void enqueue(cudaStream_t s, std::string name, std::vector<access> uses, std::function<void()> run);
// Appends a kernel. Invalid sizes set the error of cudaGetLastError().
void launch_kernel(cudaStream_t s, const char* signature, std::vector<access> uses, dim3 grid, dim3 block, std::size_t shared,
                   std::function<void()> thread);

}  // namespace troupe::vgpu
