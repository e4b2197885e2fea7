// Sensors of GPUs by NVML, NVIDIA's management library, which belongs to the driver. The library is
// opened at run time, so this needs neither its header nor its stub.
//
// It is the file named by the environment variable TROUPE_NVML_LIBRARY, otherwise
// libnvidia-ml.so.1. A GPU is found by its PCI address: NVML numbers all GPUs of the machine, CUDA
// those that CUDA_VISIBLE_DEVICES lists.
//
// Errors: none; what cannot be read is empty.
// Threads: all members may be called from any thread. They wait for the driver.
#pragma once

#include <memory>
#include <string>

#include "ops/gpu.hpp"

namespace troupe::cuda {

struct nvml_functions;

class nvml {
 public:
  explicit nvml(const std::string& file);
  ~nvml();
  nvml(const nvml&) = delete;
  nvml& operator=(const nvml&) = delete;
  // Of this process; it stays open until the process ends.
  static const nvml& get();

  const std::string& why_not() const { return why_not_; }  // empty: the library works
  const std::string& driver() const { return driver_; }    // release, "580.65.06"; empty: unknown
  gpu_sensors read(const std::string& bus) const;

 private:
  void* library_ = nullptr;
  std::unique_ptr<nvml_functions> call_;  // null: the library does not work
  std::string why_not_, driver_;
};

}  // namespace troupe::cuda
