// Jobs on the CUDA backend whose virtual GPU fails at each of its operations in turn, and what a
// job leaves on the GPU when it ends. (Whole jobs: tests/gpu.)
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ops/cuda/bf16_stream.hpp"
#include "runtime/messages/value_histogram.hpp"
#include "runtime/reduce/histogram.hpp"
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

// The values are fetched in the task of the update and counted in a second one.
TEST(gpu_jobs, report_histograms_and_store_the_best_weights_of_a_gpu) {
  for (const char* precision : {"fp32", "bf16"}) {
    const auto j = job_of(lenet_like(),
                          {"train.finish.steps=4", "data.batch=8", "data.examples=24", "data.test_examples=8", "eval.every=2",
                           std::string("job.precision=\"") + precision + "\""},
                          {"gpu:0"});
    ASSERT_TRUE(j);
    j->keeps_best = true;
    j->histograms_every = 2;
    reset({});
    embedded_options e;
    e.devices = {std::shared_ptr<device>(cuda::make_stream_of(std::make_shared<cuda::gpu>(0)))};
    std::map<std::string, value_histogram> last;  // of weights, by parameter
    std::size_t gradients = 0, bests = 0;
    e.on_event = [&](const event_effect& x) {
      if (x.is<best_event>()) ++bests;
      if (!x.is<histogram_event>()) return;
      if (flatten(x).values.front().second == 1)
        ++gradients;
      else
        last[message_of(x)] = histogram_of(flatten(x).values).value_or(value_histogram{});
    };
    std::vector<store_effect> stored;
    e.on_store = [&](const store_effect& s) {
      if (s.what == store_effect::kind_of::best) stored.push_back(s);
    };
    const auto r = embedded(j, std::move(e));
    ASSERT_TRUE(r.ok) << r.error;
    EXPECT_EQ(gradients, 2 * j->graph.params.size());
    EXPECT_EQ(stored.size(), bests);
    EXPECT_GT(bests, 0u);
    ASSERT_FALSE(r.weights.empty());
    for (const auto& [name, value] : r.weights) {
      const auto want = count_values(value);
      EXPECT_EQ(last[name].buckets, want.buckets) << name;
      EXPECT_EQ(last[name].min, want.min) << name;
      EXPECT_EQ(last[name].max, want.max) << name;
    }
    for (const auto& f : findings()) ADD_FAILURE() << f;
  }
}

}  // namespace
}  // namespace troupe::vgpu
