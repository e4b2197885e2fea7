// What gpu:0 says of itself is possible, and agrees with the device that jobs get.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "ops/device_descriptors.hpp"
#include "ops/gpu.hpp"

namespace troupe::testing_gpu {
namespace {

template <class T>
void expect_between(const std::optional<T>& v, double least, double most, const char* what) {
  if (!v) return;
  EXPECT_GE(static_cast<double>(*v), least) << what;
  EXPECT_LE(static_cast<double>(*v), most) << what;
}

TEST(GPU_facts, agree_with_the_device_and_its_pool) {
  const auto d = make_devices({"gpu:0"}).front();
  const auto before = describe_gpu(0);
  EXPECT_EQ(before.failure, "");
  EXPECT_FALSE(before.name.empty());
  EXPECT_NE(d->name().find(before.name), std::string::npos) << d->name();
  EXPECT_EQ(before.numerics_id, d->numerics_id());
  EXPECT_GT(before.major, 0);
  EXPECT_GT(before.multiprocessors, 0);
  EXPECT_EQ(before.bus.size(), 12u) << before.bus;
  ASSERT_TRUE(before.memory_free);
  EXPECT_LE(*before.memory_free, before.memory_total);
  ASSERT_TRUE(before.pool);
  const auto block = d->allocate(std::size_t{64} << 20);
  const auto after = describe_gpu(0, &before);
  EXPECT_EQ(after.name, before.name);
  EXPECT_GE(after.pool->bytes_in_use, before.pool->bytes_in_use + block->bytes);
}

TEST(GPU_facts, sensors_are_in_their_range_if_the_driver_has_them) {
  const auto f = describe_gpu(0);
  const auto& s = f.sensors;
  expect_between(s.utilisation, 0, 100, "utilisation");
  expect_between(s.memory_utilisation, 0, 100, "memory utilisation");
  expect_between(s.temperature, 1, 120, "temperature");
  expect_between(s.power, 1, 5000, "power");
  expect_between(s.fan, 0, 200, "fan");
  expect_between(s.processes, 0, 100000, "processes");
  expect_between(s.uncorrected_errors, 0, 1e9, "errors");
  expect_between(s.memory_used, 0, 1e13, "memory used");
  // Only the driver of a real GPU has the library.
  void* const library = std::getenv("TROUPE_GPU_LIBRARY") ? nullptr : dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  EXPECT_FALSE(f.driver.empty());
  EXPECT_TRUE(s.temperature);
  EXPECT_TRUE(s.memory_used);
  dlclose(library);
}

}  // namespace
}  // namespace troupe::testing_gpu
