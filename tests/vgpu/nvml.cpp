// NVML of the virtual GPUs, as a library that TROUPE_NVML_LIBRARY names: the functions that Troupe
// calls, with NVIDIA's signatures. GPU number i of the machine has the PCI address 0000:N:00.0 with
// N = i + 1, and values that depend on i. The environment variable TROUPE_VGPU_NVML has options:
//
//   gpus=N            number of GPUs (2)
//   FUNCTION=CODE     the function returns this error, e.g. nvmlDeviceGetFanSpeed=3
//
// With TROUPE_VGPU_OLD_NVML the library lacks functions that drivers have had only later.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int success = 0, not_found = 6, insufficient_size = 7;
constexpr int max_gpus = 8;
char gpus[max_gpus];

// The number after "name=" in the options; `fallback` if they do not have it.
int option(const char* name, int fallback) {
  const char* text = std::getenv("TROUPE_VGPU_NVML");
  const auto word = " " + std::string(name) + "=";
  const auto all = " " + std::string(text ? text : "");
  const auto at = all.find(word);
  return at == std::string::npos ? fallback : std::atoi(all.c_str() + at + word.size());
}
int error_of(const char* function) { return option(function, success); }
unsigned index_of(void* gpu) { return static_cast<unsigned>(static_cast<char*>(gpu) - gpus); }

template <class T>
int give(const char* function, T* to, T value) {
  const int code = error_of(function);
  if (code == success) *to = value;
  return code;
}

}  // namespace

extern "C" {

struct nvmlUtilization_t {
  unsigned gpu, memory;
};
struct nvmlMemory_t {
  unsigned long long total, free, used;
};

int nvmlInit_v2() { return error_of(__func__); }
int nvmlShutdown() { return success; }
const char* nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "580.65.06");
  return error_of(__func__);
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** gpu) {
  unsigned domain = 0, number = 0;
  if (std::sscanf(bus, "%x:%x:00.0", &domain, &number) != 2 || domain != 0) return not_found;
  if (number < 1 || number > static_cast<unsigned>(option("gpus", 2)) || number > max_gpus) return not_found;
  return give(__func__, gpu, static_cast<void*>(gpus + number - 1));
}
int nvmlDeviceGetUtilizationRates(void* gpu, nvmlUtilization_t* rates) {
  return give(__func__, rates, {90 + index_of(gpu), 40 + index_of(gpu)});
}
int nvmlDeviceGetMemoryInfo(void* gpu, nvmlMemory_t* memory) {
  const auto used = (1 + index_of(gpu)) * 1000ull;
  return give(__func__, memory, {1000000, 1000000 - used, used});
}
int nvmlDeviceGetPowerUsage(void* gpu, unsigned* milliwatts) { return give(__func__, milliwatts, 350500 + index_of(gpu)); }
int nvmlDeviceGetFanSpeed(void* gpu, unsigned* percent) { return give(__func__, percent, 30 + index_of(gpu)); }
int nvmlDeviceGetTotalEccErrors(void* gpu, int type, int counter, unsigned long long* count) {
  return give(__func__, count, type == 1 && counter == 0 ? 7ull + index_of(gpu) : 0ull);
}
#ifdef TROUPE_VGPU_OLD_NVML
#define RUNNING_PROCESSES nvmlDeviceGetComputeRunningProcesses
#else
#define RUNNING_PROCESSES nvmlDeviceGetComputeRunningProcesses_v3
int nvmlDeviceGetTemperature(void* gpu, int sensor, unsigned* degrees) {
  return give(__func__, degrees, sensor == 0 ? 60 + index_of(gpu) : 0u);
}
#endif
int RUNNING_PROCESSES(void* gpu, unsigned* count, void*) {
  const int code = give(__func__, count, index_of(gpu));
  return code == success && index_of(gpu) > 0 ? insufficient_size : code;
}

}  // extern "C"
