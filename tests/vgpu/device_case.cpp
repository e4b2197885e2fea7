// Makes the CUDA backend on the virtual GPU the device of the tests that this file is linked to.
#include <gtest/gtest.h>

#include <cstdlib>

#include "ops/cuda/bf16_stream.hpp"
#include "tests/ops/support.hpp"
#include "tests/vgpu/vgpu.hpp"

namespace troupe::vgpu {
namespace {

// A new virtual GPU for each device; its findings fail the test that runs when the device goes.
std::shared_ptr<device> make_device() {
  options o;
  if (const char* seed = std::getenv("TROUPE_VGPU_SEED")) o.seed = std::strtoull(seed, nullptr, 10);
  reset(o);
  auto* made = cuda::make_stream_of(std::make_shared<cuda::gpu>(0)).release();
  return {made, [](device* d) {
            delete d;
            for (const auto& f : findings()) ADD_FAILURE() << "virtual GPU: " << f;
          }};
}

const bool registered = (test::only_device_cases().push_back({"vgpu", make_device}), true);

}  // namespace
}  // namespace troupe::vgpu
