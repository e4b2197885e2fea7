#include "ops/cuda/nvml.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <initializer_list>

namespace troupe::cuda {

// The part of NVML's interface that is used (nvml.h, stable since driver 319). Optional functions
// are null if the driver's library does not have them.
struct nvml_functions {
  static constexpr int success = 0, insufficient_size = 7;
  static constexpr int on_chip = 0;                     // NVML_TEMPERATURE_GPU
  static constexpr int uncorrected = 1, volatile_ = 0;  // NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC
  using gpu_handle = void*;
  struct rates {
    unsigned gpu, memory;
  };
  struct memory {
    unsigned long long total, free, used;
  };

  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*handle_by_bus)(const char* bus, gpu_handle*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*driver_version)(char* text, unsigned length) = nullptr;
  int (*utilisation)(gpu_handle, rates*) = nullptr;
  int (*memory_info)(gpu_handle, memory*) = nullptr;
  int (*temperature)(gpu_handle, int sensor, unsigned*) = nullptr;
  int (*power)(gpu_handle, unsigned* milliwatts) = nullptr;
  int (*fan)(gpu_handle, unsigned* percent) = nullptr;
  int (*errors)(gpu_handle, int type, int counter, unsigned long long*) = nullptr;
  int (*processes)(gpu_handle, unsigned* count, void* list) = nullptr;
};

namespace {

template <class F>
void find(void* library, F& f, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (!f) f = reinterpret_cast<F>(dlsym(library, name));
}

std::unique_ptr<nvml_functions> functions_in(void* library) {
  auto f = std::make_unique<nvml_functions>();
  find(library, f->init, {"nvmlInit_v2"});
  find(library, f->shutdown, {"nvmlShutdown"});
  find(library, f->handle_by_bus, {"nvmlDeviceGetHandleByPciBusId_v2"});
  find(library, f->error_string, {"nvmlErrorString"});
  find(library, f->driver_version, {"nvmlSystemGetDriverVersion"});
  find(library, f->utilisation, {"nvmlDeviceGetUtilizationRates"});
  find(library, f->memory_info, {"nvmlDeviceGetMemoryInfo"});
  find(library, f->temperature, {"nvmlDeviceGetTemperature"});
  find(library, f->power, {"nvmlDeviceGetPowerUsage"});
  find(library, f->fan, {"nvmlDeviceGetFanSpeed"});
  find(library, f->errors, {"nvmlDeviceGetTotalEccErrors"});
  // Only the number is asked for, which has one meaning in all versions.
  find(library, f->processes,
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetComputeRunningProcesses"});
  return f;
}

// The value that `f(arguments..., &value)` reads; empty if there is no such function or sensor.
template <class T, class F, class... A>
std::optional<T> value_of(F* f, A... arguments) {
  T v{};
  if (!f || f(arguments..., &v) != nvml_functions::success) return std::nullopt;
  return v;
}

std::optional<double> scaled(std::optional<unsigned> v, double factor = 1) {
  return v ? std::optional(static_cast<double>(*v) * factor) : std::nullopt;
}

std::optional<std::uint64_t> number_of_processes(const nvml_functions& call, void* gpu) {
  unsigned count = 0;
  const int code = call.processes ? call.processes(gpu, &count, nullptr) : -1;
  if (code != nvml_functions::success && code != nvml_functions::insufficient_size) return std::nullopt;
  return count;
}

}  // namespace

nvml::nvml(const std::string& file) : library_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!library_) {
    const char* text = dlerror();
    why_not_ = text ? text : file + " cannot be opened";
    return;
  }
  auto f = functions_in(library_);
  if (!f->init || !f->handle_by_bus) {
    why_not_ = file + " lacks functions of NVML";
    return;
  }
  if (const int code = f->init(); code != nvml_functions::success) {
    why_not_ = file + ": " + (f->error_string ? f->error_string(code) : "error " + std::to_string(code));
    return;
  }
  char text[96] = {};
  if (f->driver_version && f->driver_version(text, sizeof text - 1) == nvml_functions::success) driver_ = text;
  call_ = std::move(f);
}

nvml::~nvml() {
  if (call_ && call_->shutdown) call_->shutdown();
  if (library_) dlclose(library_);
}

const nvml& nvml::get() {
  // Never destroyed: a thread that reads sensors may outlive static objects.
  static const auto* const library = [] {
    const char* named = std::getenv("TROUPE_NVML_LIBRARY");
    return new nvml(named ? named : "libnvidia-ml.so.1");
  }();
  return *library;
}

gpu_sensors nvml::read(const std::string& bus) const {
  gpu_sensors s;
  if (!call_) return s;
  const auto gpu = value_of<void*>(call_->handle_by_bus, bus.c_str());
  if (!gpu) return s;
  if (const auto rates = value_of<nvml_functions::rates>(call_->utilisation, *gpu)) {
    s.utilisation = rates->gpu;
    s.memory_utilisation = rates->memory;
  }
  s.temperature = scaled(value_of<unsigned>(call_->temperature, *gpu, nvml_functions::on_chip));
  s.power = scaled(value_of<unsigned>(call_->power, *gpu), 1e-3);
  s.fan = scaled(value_of<unsigned>(call_->fan, *gpu));
  if (const auto memory = value_of<nvml_functions::memory>(call_->memory_info, *gpu)) s.memory_used = memory->used;
  s.uncorrected_errors = value_of<unsigned long long>(call_->errors, *gpu, nvml_functions::uncorrected, nvml_functions::volatile_);
  s.processes = number_of_processes(*call_, *gpu);
  return s;
}

}  // namespace troupe::cuda
