// GPUs by number. Their backend is a library, libtroupe_cuda.so, that is opened when a GPU is first
// asked for: programs that use none do not load CUDA.
//
// The library is the file named by the environment variable TROUPE_GPU_LIBRARY; otherwise
// libtroupe_cuda.so in the folders lib/ and lib/troupe/ next to the program's bin/, or where the
// dynamic linker looks. Its symbols of Troupe are those of the program.
//
// Threads: all functions may be called from any thread.
#pragma once

#include <memory>
#include <string>

#include "ops/device.hpp"

namespace troupe {

// What the library exports, by `extern "C" const gpu_backend* troupe_gpu_backend()`.
struct gpu_backend {
  static constexpr int expected_version = 1;
  int version = expected_version;  // of this struct and of ops/device.hpp
  // The number of GPUs; if it is 0, `why` says why.
  int (*count)(std::string& why) = nullptr;
  // The device with this number: a stream of the GPU. Throws std::exception.
  std::shared_ptr<device> (*make)(int number) = nullptr;
};
using gpu_backend_entry = const gpu_backend* (*)();

// Why the GPU cannot be used, or an empty string.
std::string why_no_gpu(int number);
// Throws std::runtime_error with the reason if the GPU cannot be used.
std::shared_ptr<device> make_gpu(int number);

}  // namespace troupe
