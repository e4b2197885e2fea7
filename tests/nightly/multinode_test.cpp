// Multi-node Caffe's five machines (BVLC/caffe#3441) with CIFAR10-full on images. TROUPE_CIFAR10
// names a folder with train/CLASS and test/CLASS; without it these tests are skipped.
#include <cstdlib>

#include "tests/cluster/modes.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

class nightly_multinode : public cluster_test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("TROUPE_CIFAR10");
    if (!folder) GTEST_SKIP() << "TROUPE_CIFAR10 is not set";
    data_ = {folder};
    make_cluster_like("multinode_caffe.toml");
    start_all();
    common_ = {std::string("data.path=\"") + folder + "\"", "pipeline.packets=4", "pipeline.fuse=\"auto\"",
               "pipeline.sub_solvers=1"};
  }
  // Trains with one worker that has the whole net, or on all five machines. Returns the hash of the
  // weights and the accuracy.
  std::pair<std::string, double> train(bool five, std::vector<std::string> set) {
    set.insert(set.end(), common_.begin(), common_.end());
    if (five) set.insert(set.end(), {"topology.workers_per_group=3", "layer.ip1.place=fc"});
    const auto r = run(config_text("cifar10_images.toml"), set);
    EXPECT_EQ(r.outcome.exit_code(), 0) << (r.events.empty() ? "" : message_of(r.events.back().event));
    return {r.text("weights_sha256"), r.value("test_accuracy")};
  }
  std::vector<std::string> common_;
};

TEST_F(nightly_multinode, one_step_on_five_machines_equals_one_process) {
  const auto one = train(false, {"train.finish.steps=1", "eval.every=0"});
  EXPECT_EQ(one.first.size(), 64u);
  EXPECT_EQ(train(true, {"train.finish.steps=1", "eval.every=0"}), one);
}

// Caffe's schedule (60,000, 65,000, 70,000) scaled to 5,000 steps. Only packets are split, so
// weights and accuracies are equal to the bit.
TEST_F(nightly_multinode, five_thousand_steps_on_five_machines_equal_one_process) {
  for (const char* seed : {"1", "2", "3"}) {
    const std::vector<std::string> set{std::string("job.seed=") + seed, "train.finish.steps=5000", "eval.every=0",
                                       "train.dynamics.schedule={kind=\"fixed_step\",at=[4286,4643],factor=0.1}"};
    const auto one = train(false, set), five = train(true, set);
    std::printf("seed %s: one process %.4f, five machines %.4f\n", seed, one.second, five.second);
    EXPECT_EQ(five, one);
    EXPECT_GT(one.second, 0.5);
  }
}

}  // namespace
}  // namespace troupe::testing_cluster
