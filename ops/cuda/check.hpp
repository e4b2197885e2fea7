// Errors of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace troupe::cuda {

struct cuda_error : std::runtime_error {
  cuda_error(cudaError_t c, const std::string& what)
      : std::runtime_error("CUDA: " + what + ": " + cudaGetErrorName(c) + ": " + cudaGetErrorString(c)), code(c) {}
  cudaError_t code;
};

// Throws cuda_error if `c` is an error. `what`: the operation, e.g. "copy to the device".
inline void check(cudaError_t c, const char* what) {
  if (c != cudaSuccess) throw cuda_error(c, what);
}

}  // namespace troupe::cuda
