// Jobs on the CUDA backend whose virtual GPU fails at each of its operations in turn, and what a
// job leaves on the GPU when it ends. (Whole jobs: tests/gpu.)
#include <gtest/gtest.h>

#include "ops/cuda/bf16_stream.hpp"
#include "tests/actors/embedded_support.hpp"
#include "tests/vgpu/vgpu.hpp"

namespace troupe::vgpu {
namespace {

using namespace testing_embedded;

// What a job of two steps on a few examples ends with if the device fails; "" if it ends well.
std::string failure_of(const options& o) {
  static const auto j =
      job_of(lenet_like(), {"train.finish.steps=2", "data.batch=4", "data.examples=12", "data.test_examples=4"}, {"gpu:0"});
  reset(o);
  std::string failure;
  {
    const auto g = std::make_shared<cuda::gpu>(0);
    const std::shared_ptr<device> stream = cuda::make_stream_of(g);
    const auto held = g.use_count();
    embedded_options e;
    e.devices = {stream};
    const auto r = embedded(j, std::move(e));
    failure = r.ok ? "" : r.error;
    EXPECT_FALSE(r.hung);
    EXPECT_EQ(g.use_count(), held) << "the job has left a stream";
  }
  EXPECT_EQ(counted().streams, 0u);
  EXPECT_EQ(counted().events, 0u);
  EXPECT_TRUE(o.lose_device >= 0 || counted().bytes_in_use == 0);
  for (const auto& f : findings()) ADD_FAILURE() << f;
  return failure;
}

TEST(gpu_failures, end_the_job_with_what_was_asked_for_and_held_when_memory_ends) {
  std::size_t failed = 0;
  for (std::int64_t n = 0; n < 200; ++n) {
    options o;
    o.fail_allocation = n;
    const auto text = failure_of(o);
    failed += text.empty() ? 0 : 1;
    EXPECT_TRUE(text.empty() || text.find("gpu:0 (virtual GPU) is out of memory: ") != std::string::npos) << n << ": " << text;
  }
  EXPECT_GT(failed, 20u);
}

TEST(gpu_failures, end_the_job_with_the_name_of_the_device_when_it_is_lost) {
  for (std::int64_t n = 0; n < 200; ++n) {
    options o;
    o.lose_device = n;
    const auto text = failure_of(o);
    EXPECT_NE(text.find("gpu:0"), std::string::npos) << n << ": " << text;
  }
}

TEST(gpu_jobs, leave_no_stream_event_or_memory_when_they_end) {
  EXPECT_EQ(failure_of({}), "");
  EXPECT_GT(counted().kernels, 0u);
}

}  // namespace
}  // namespace troupe::vgpu
