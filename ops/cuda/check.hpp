// Errors of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace troupe::cuda {

struct cuda_error : std::runtime_error {
  cuda_error(cudaError_t c, const std::string& what)
      : std::runtime_error(device() + ": " + what + ": " + cudaGetErrorString(c) + " (" + cudaGetErrorName(c) + ")"), code(c) {}
  cudaError_t code;

 private:
  // The current device of this thread, "gpu:0"; also known if the device is lost.
  static std::string device() {
    int index = 0;
    return cudaGetDevice(&index) == cudaSuccess ? "gpu:" + std::to_string(index) : std::string("CUDA");
  }
};

// Throws cuda_error if `c` is an error. `what`: the operation, e.g. "copy to the device".
inline void check(cudaError_t c, const char* what) {
  if (c != cudaSuccess) throw cuda_error(c, what);
}

}  // namespace troupe::cuda
