// Failures that a real GPU can be made to have: a device that does not exist, and the end of
// memory.
#include <string>

#include "tests/gpu/jobs.hpp"

namespace troupe::testing_gpu {
namespace {

// The activations of `wide` take 1.1 TB, and its weights half a megabyte.
constexpr const char* too_large = R"(
[job]
name = "too-large"
[data]
source = "synthetic"
shape = [1, 64, 64]
classes = 2
examples = 1024
test_examples = 1024
batch = 1024
[[layer]]
name = "wide"
type = "convolution"
inputs = ["data"]
outputs = 65536
kernel = 1
[[layer]]
name = "pool"
type = "avg_pool"
inputs = ["wide"]
kernel = 64
[[layer]]
name = "ip"
type = "linear"
inputs = ["pool"]
outputs = 2
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["ip", "label"]
[train]
dynamics = { rule = "sgd", lr = 0.01 }
finish = { steps = 1 }
)";

TEST(GPU_failures, name_what_was_asked_for_and_held_when_memory_ends) {
  embedded_options o;
  o.devices = make_devices({"gpu:0"});
  const auto r = testing_embedded::embedded(testing_embedded::job_of(too_large, {}, {"gpu:0"}), std::move(o));
  EXPECT_FALSE(r.ok);
  EXPECT_FALSE(r.hung);
  EXPECT_NE(r.error.find("gpu:0"), std::string::npos) << r.error;
  EXPECT_NE(r.error.find(" is out of memory: 1099511627776 bytes were asked for"), std::string::npos) << r.error;
}

TEST(GPU_failures, leave_the_gpu_usable_when_memory_has_ended) {
  const auto want = weights_on({"gpu:0"}, {"train.finish.steps=2"});
  embedded_options o;
  o.devices = make_devices({"gpu:0"});
  EXPECT_FALSE(testing_embedded::embedded(testing_embedded::job_of(too_large, {}, {"gpu:0"}), std::move(o)).ok);
  EXPECT_EQ(weights_on({"gpu:0"}, {"train.finish.steps=2"}), want);
}

TEST(GPU_failures, name_the_number_of_gpus_when_a_device_does_not_exist) {
  const auto why = why_unusable({"gpu:0", "gpu:99"}, 1);
  EXPECT_NE(why.find("this machine has "), std::string::npos) << why;
  try {
    make_devices({"gpu:99"});
    ADD_FAILURE() << "gpu:99 exists";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("gpu:99"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace troupe::testing_gpu
