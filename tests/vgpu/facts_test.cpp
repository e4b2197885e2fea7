// What a GPU of the virtual machine says of itself, and its sensors by a library in place of NVML.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "ops/cuda/facts.hpp"
#include "ops/cuda/nvml.hpp"
#include "tests/vgpu/vgpu.hpp"

extern "C" const troupe::gpu_backend* troupe_gpu_backend();

namespace troupe::vgpu {
namespace {

using cuda::nvml;
using testing::HasSubstr;

constexpr const char *first_bus = "0000:01:00.0", *second_bus = "0000:02:00.0";

// Options of the library in place of NVML, while this lives.
struct nvml_options {
  explicit nvml_options(const char* text) { setenv("TROUPE_VGPU_NVML", text, 1); }
  ~nvml_options() { unsetenv("TROUPE_VGPU_NVML"); }
};

void none_of(const gpu_sensors& s) {
  EXPECT_FALSE(s.utilisation || s.memory_utilisation || s.temperature || s.power || s.fan || s.memory_used ||
               s.uncorrected_errors || s.processes);
}

TEST(gpu_sensors, are_those_of_the_gpu_with_the_pci_address) {
  const nvml library(TROUPE_VGPU_NVML_LIBRARY);
  ASSERT_EQ(library.why_not(), "");
  EXPECT_EQ(library.driver(), "580.65.06");
  const auto one = library.read(first_bus), two = library.read(second_bus);
  EXPECT_EQ(one.utilisation, 90);
  EXPECT_EQ(one.memory_utilisation, 40);
  EXPECT_EQ(one.temperature, 60);
  EXPECT_DOUBLE_EQ(one.power.value_or(0), 350.5);
  EXPECT_EQ(one.fan, 30);
  EXPECT_EQ(one.memory_used, 1000u);
  EXPECT_EQ(one.uncorrected_errors, 7u);
  EXPECT_EQ(one.processes, 0u);
  EXPECT_EQ(two.utilisation, 91);
  EXPECT_EQ(two.temperature, 61);
  EXPECT_EQ(two.processes, 1u) << "the number is known although there is no room for a list";
  none_of(library.read("0000:07:00.0"));
}

TEST(gpu_sensors, are_empty_when_there_is_no_library_or_no_driver) {
  const nvml missing("/nowhere/libnvidia-ml.so.1");
  EXPECT_THAT(missing.why_not(), HasSubstr("/nowhere/libnvidia-ml.so.1: cannot open shared object file"));
  none_of(missing.read(first_bus));
  const nvml other("libm.so.6");  // a library that is no NVML
  EXPECT_THAT(other.why_not(), HasSubstr("lacks functions of NVML"));
  none_of(other.read(first_bus));
  const nvml_options failing("nvmlInit_v2=9");
  const nvml unloaded(TROUPE_VGPU_NVML_LIBRARY);
  EXPECT_THAT(unloaded.why_not(), HasSubstr("Driver Not Loaded"));
  EXPECT_EQ(unloaded.driver(), "");
  none_of(unloaded.read(first_bus));
}

TEST(gpu_sensors, only_those_that_the_driver_has_are_read) {
  const nvml old(TROUPE_VGPU_OLD_NVML_LIBRARY);
  ASSERT_EQ(old.why_not(), "");
  auto s = old.read(second_bus);
  EXPECT_FALSE(s.temperature) << "the function is missing";
  EXPECT_EQ(s.utilisation, 91);
  EXPECT_EQ(s.processes, 1u) << "by the function of old drivers";
  const nvml_options failing("nvmlDeviceGetUtilizationRates=3 nvmlDeviceGetFanSpeed=3 nvmlDeviceGetComputeRunningProcesses_v3=4");
  s = nvml(TROUPE_VGPU_NVML_LIBRARY).read(second_bus);
  EXPECT_FALSE(s.utilisation || s.memory_utilisation || s.fan || s.processes);
  EXPECT_EQ(s.temperature, 61);
  EXPECT_EQ(s.memory_used, 2000u);
}

TEST(gpu_facts, have_the_memory_of_the_gpu_and_of_this_process) {
  reset({.devices = 2, .memory = 1 << 20, .reversed = true});
  const auto& backend = *troupe_gpu_backend();
  auto f = backend.describe(1, nullptr);
  EXPECT_EQ(f.name, "virtual GPU");
  EXPECT_EQ(f.bus, first_bus) << "the devices are in reversed order";
  EXPECT_EQ(f.multiprocessors, 132);
  EXPECT_EQ(f.clock_mhz, 1980);
  EXPECT_EQ(f.driver_cuda, "13.0");
  EXPECT_FALSE(f.cublas.empty());
  EXPECT_FALSE(f.cudnn.empty());
  EXPECT_EQ(f.memory_total, 1u << 20);
  EXPECT_EQ(f.memory_free, 1u << 20);
  EXPECT_FALSE(f.pool) << "no job uses it";
  {
    const auto device = backend.make(1);
    EXPECT_EQ(f.numerics_id, device->numerics_id());
    const auto block = device->allocate(4096);
    f = backend.describe(1, &f);
    ASSERT_TRUE(f.pool);
    EXPECT_EQ(f.pool->bytes_in_use, 4096u);
    EXPECT_EQ(f.memory_free, (1u << 20) - 4096u);
    EXPECT_FALSE(backend.describe(0, nullptr).pool) << "another GPU";
  }
  EXPECT_FALSE(backend.describe(1, &f).pool) << "the job is over";
  EXPECT_THROW(backend.describe(2, nullptr), std::exception);
  for (const auto& x : findings()) ADD_FAILURE() << x;
}

TEST(gpu_facts, name_the_failure_when_the_gpu_is_lost) {
  reset({.lose_device = 0});
  const auto& backend = *troupe_gpu_backend();
  auto f = backend.describe(0, nullptr);
  EXPECT_EQ(f.failure, "");
  const auto device = backend.make(0);
  device->begin_task();
  {
    auto t = tensor::allocate(*device, {4}, dtype::f32);
    try {
      device->fill(1, t);
    } catch (const std::exception&) {
    }
  }
  device->end_task();
  f = backend.describe(0, &f);
  EXPECT_THAT(f.failure, HasSubstr("unspecified launch failure"));
  EXPECT_FALSE(f.memory_free);
  EXPECT_EQ(f.name, "virtual GPU");
  device->wait_over();
}

}  // namespace
}  // namespace troupe::vgpu
