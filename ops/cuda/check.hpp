// Errors of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <stdexcept>
#include <string>

namespace troupe::cuda {

// Number of a GPU that this process has lost: after such an error the process must end before the
// GPU can be used again (CUDA Runtime API, cudaError). -1: none.
inline std::atomic<int> lost_device{-1};

inline bool loses_the_device(cudaError_t c) {
  switch (c) {
    case cudaErrorAssert:
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorNvlinkUncorrectable: return true;
    default: return false;
  }
}

struct cuda_error : std::runtime_error {
  cuda_error(cudaError_t c, const std::string& what)
      : std::runtime_error(device(c) + ": " + what + ": " + cudaGetErrorString(c) + " (" + cudaGetErrorName(c) + ")"), code(c) {}
  cudaError_t code;

 private:
  // The current device of this thread, "gpu:0"; also known if the device is lost.
  static std::string device(cudaError_t c) {
    int index = 0;
    const bool known = cudaGetDevice(&index) == cudaSuccess;
    if (loses_the_device(c)) lost_device = index;
    return known ? "gpu:" + std::to_string(index) : std::string("CUDA");
  }
};

// Throws cuda_error if `c` is an error. `what`: the operation, e.g. "copy to the device".
inline void check(cudaError_t c, const char* what) {
  if (c != cudaSuccess) throw cuda_error(c, what);
}

}  // namespace troupe::cuda
