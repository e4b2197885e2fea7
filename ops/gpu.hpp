// GPUs by number. Their backend is a library, libtroupe_cuda.so, that is opened when a GPU is first
// asked for: programs that use none do not load CUDA.
//
// The library is the file named by the environment variable TROUPE_GPU_LIBRARY; otherwise
// libtroupe_cuda.so in the folders lib/ and lib/troupe/ next to the program's bin/, or where the
// dynamic linker looks. Its symbols of Troupe are those of the program.
//
// Threads: all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ops/device.hpp"

namespace troupe {

// What the sensors of a GPU measure, for all processes that use it. Empty: the driver has no such
// sensor, or its library of sensors is missing.
struct gpu_sensors {
  std::optional<double> utilisation, memory_utilisation;  // percent of the driver's last interval with a kernel, a copy
  std::optional<double> temperature, power, fan;          // degrees Celsius, watts, percent
  std::optional<std::uint64_t> memory_used;               // bytes; of the whole GPU, also if a slice of it is in use (MIG)
  std::optional<std::uint64_t> uncorrected_errors;        // of ECC memory since the driver was loaded
  std::optional<std::uint64_t> processes;                 // that compute on it
};

// One GPU of this machine, now.
// size: one field per value that NVML reports
struct gpu_facts {
  std::string name;              // "NVIDIA H100 80GB HBM3"
  std::string numerics_id, bus;  // as device::numerics_id(); PCI address "0000:3B:00.0"
  int major = 0, minor = 0;      // compute capability
  int multiprocessors = 0;
  double clock_mhz = 0;                          // highest; 0: unknown
  std::string driver;                            // release, "580.65.06"; empty: unknown
  std::string driver_cuda, cuda, cublas, cudnn;  // versions; driver_cuda: the newest CUDA that the driver supports
  std::uint64_t memory_total = 0;                // bytes
  std::optional<std::uint64_t> memory_free;      // empty: the GPU does not answer
  std::optional<device::pool_statistics> pool;   // of this process; empty: it does not use the GPU
  gpu_sensors sensors;
  std::string failure;  // why the GPU does not answer; empty: it does
};

// What the library exports, by `extern "C" const gpu_backend* troupe_gpu_backend()`.
struct gpu_backend {
  static constexpr int expected_version = 2;
  int version = expected_version;  // of this struct and of ops/device.hpp
  // The number of GPUs; if it is 0, `why` says why.
  int (*count)(std::string& why) = nullptr;
  // The device with this number: a stream of the GPU. Throws std::exception.
  std::shared_ptr<device> (*make)(int number) = nullptr;
  // The GPU with this number. Makes no stream; a driver may take long to answer. `earlier`: facts
  // of the same GPU; only what changes is asked anew. Null: everything, and throws std::exception
  // if there is no such GPU.
  gpu_facts (*describe)(int number, const gpu_facts* earlier) = nullptr;
  // The number of a GPU that this process has lost, -1 if there is none.
  int (*lost)() = nullptr;
};
using gpu_backend_entry = const gpu_backend* (*)();

// The number of GPUs that this process can use; if it is 0, `why` says why.
int count_gpus(std::string& why);
// Why the GPU cannot be used, or an empty string.
std::string why_no_gpu(int number);
// Throws std::runtime_error with the reason if the GPU cannot be used.
std::shared_ptr<device> make_gpu(int number);
// The number of a GPU that this process has lost: no job can use it until the process ends. -1:
// none. Does not open the backend.
int lost_gpu();
// As gpu_backend::describe. Throws std::runtime_error with the reason if the GPU cannot be used.
gpu_facts describe_gpu(int number, const gpu_facts* earlier = nullptr);

}  // namespace troupe
