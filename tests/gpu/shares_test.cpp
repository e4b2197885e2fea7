// One batch over several devices: uneven shares, shares of one layer, shares that follow the speed,
// and sums over two GPUs.
#include "tests/gpu/jobs.hpp"

namespace troupe::testing_gpu {
namespace {

const std::vector<std::string> one{"gpu:0"}, both{"gpu:0", "cpu:0"}, two{"gpu:0", "gpu:1"};

TEST(GPU_shares, of_a_gpu_and_a_cpu_have_the_loss_curve_of_the_cpu) {
  const auto want = run_on({"cpu:0"}, {"pipeline.packets=8"});
  for (const char* fraction : {"[0.875,0.125]", "[0.625,0.375]", "[0.25,0.75]"}) {
    SCOPED_TRACE(fraction);
    const overrides set{"pipeline.packets=8", "topology.workers_per_group=2", std::string("layer.conv1.fraction=") + fraction};
    expect_same_curve(run_on(both, set), want, 1e-4);
  }
}

TEST(GPU_shares, of_one_layer_have_the_loss_curve_of_the_cpu) {
  const auto want = run_on({"cpu:0"}, {"pipeline.packets=8"});
  const overrides split{"pipeline.packets=8", "layer.conv1.partition=batch", "layer.conv1.place=[\"local/gpu:0\",\"local/cpu:0\"]",
                        "layer.conv1.fraction=[0.75,0.25]"};
  expect_same_curve(run_on(both, split), want, 1e-4);
  expect_same_curve(run_on(both, {"pipeline.packets=8", "layer.ip1.place=local/cpu:0"}), want, 1e-4);
}

TEST(GPU_shares, that_follow_the_speed_have_the_loss_curve_of_the_cpu) {
  const overrides set{"pipeline.packets=8", "topology.workers_per_group=2", "layer.conv1.fraction=auto"};
  expect_same_curve(run_on(both, set), run_on({"cpu:0"}, {"pipeline.packets=8"}), 1e-4);
}

TEST(GPU_two_devices, sum_in_the_packet_tree_or_by_nccl) {
  if (const auto why = why_unusable(two, 1); !why.empty()) GTEST_SKIP() << why;
  const overrides tree{"topology.workers_per_group=2", "train.exchange={reducer=\"hierarchical\"}"};
  EXPECT_EQ(weights_on(two, tree), weights_on(one));
  const overrides nccl{"topology.workers_per_group=2", "train.exchange={reducer=\"nccl\"}", "train.deterministic=false"};
  expect_same_curve(run_on(two, nccl), run_on({"cpu:0"}), 1e-4);
}

}  // namespace
}  // namespace troupe::testing_gpu
