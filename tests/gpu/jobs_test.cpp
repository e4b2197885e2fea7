// Whole jobs on gpu:0: they train like the same jobs on the CPU, in every mode and with every rule,
// also together with a CPU and on two GPUs.
#include "tests/gpu/jobs.hpp"

#include "tests/cluster/modes.hpp"
#include "tests/node/config_jobs.hpp"

namespace troupe::testing_gpu {
namespace {

const std::vector<std::string> one{"gpu:0"}, two{"gpu:0", "gpu:1"};
const overrides two_workers{"topology.workers_per_group=2"};
const std::vector<overrides> shapes{
    two_workers, {"pipeline.sub_solvers=3"}, {"topology.workers_per_group=4", "pipeline.sub_solvers=2"}};

TEST(GPU_jobs, have_the_loss_curve_of_the_cpu) {
  const auto got = run_on(one);
  expect_same_curve(got, run_on({"cpu:0"}), 1e-4);
  EXPECT_EQ(got.losses.size(), 20u);
}

// The LeNet of configs/jobs on drawn pictures, which every machine has.
TEST(GPU_jobs, have_the_loss_curve_of_the_cpu_with_lenet) {
  auto here = testing_configs::one_node();
  here.front().devices = one;
  const auto j = testing_configs::prepared(
      "lenet_fashion.toml", here,
      {"data={source=\"synthetic\",shape=[1,28,28],classes=10,examples=512,test_examples=64,batch=8}", "train.finish={steps=20}"});
  ASSERT_TRUE(j);
  const auto got = run_on(one, j);
  expect_same_curve(got, run_on({"cpu:0"}, j), 1e-4);
  EXPECT_EQ(got.losses.size(), 20u);
}

TEST(GPU_jobs, end_with_the_same_weights_in_any_shape_and_when_repeated) {
  const auto want = weights_on(one);
  EXPECT_EQ(weights_on(one), want);
  for (const auto& set : shapes) EXPECT_EQ(weights_on(one, set), want) << set[0];
}

TEST(GPU_jobs, split_one_batch_over_a_cpu_and_a_gpu) {
  expect_same_curve(run_on({"gpu:0", "cpu:0"}, two_workers), run_on({"cpu:0"}, two_workers), 1e-4);
}

TEST(GPU_jobs, follow_the_cpu_with_every_rule) {
  for (const char* rule : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adadelta", "adam", "adamw", "adamax"}) {
    SCOPED_TRACE(rule);
    expect_the_cpus_curve({"train.dynamics={rule=\"" + std::string(rule) + "\",lr=0.01}", "train.finish.steps=8"}, 1e-4);
  }
}

TEST(GPU_jobs, follow_the_cpu_with_smoothed_labels) {
  expect_the_cpus_curve({"layer.loss.label_smoothing=0.1", "train.finish.steps=8"}, 1e-4);
}

TEST(GPU_jobs, follow_the_cpu_in_f64_and_roughly_in_bf16) {
  expect_the_cpus_curve({"job.precision=\"f64\"", "train.finish.steps=8"}, 1e-10);
  expect_the_cpus_curve({"job.precision=\"bf16\"", "train.finish.steps=8"}, 2e-2);
}

TEST(GPU_jobs, train_in_every_mode) {
  const auto& devices = why_unusable(two, 1).empty() ? two : one;
  for (auto [mode, set] : testing_cluster::documented_modes()) {
    SCOPED_TRACE(mode);
    set.insert(set.end(), {"topology.workers_per_group=2", "train.finish.steps=30"});
    const auto got = run_on(devices, set);
    EXPECT_LT(got.last(), got.first());
  }
}

TEST(GPU_two_devices, end_with_the_weights_of_one) {
  if (const auto why = why_unusable(two, 1); !why.empty()) GTEST_SKIP() << why;
  const auto want = weights_on(one);
  for (const auto& set : shapes) EXPECT_EQ(weights_on(two, set), want) << set[0];
}

}  // namespace
}  // namespace troupe::testing_gpu
