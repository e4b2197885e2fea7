// Placed layers on real daemons train to the same bits as one process.
#include <fstream>

#include "tests/cluster/modes.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

class cluster_controllers : public cluster_test {
 protected:
  std::string hash_of(const std::string& text, const std::vector<std::string>& set) {
    const auto r = run(text, set);
    EXPECT_EQ(r.outcome.exit_code(), 0) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front())
                                        << (r.events.empty() ? "" : message_of(r.events.back().event));
    return r.text("weights_sha256");
  }
};

// GoogLeNet with both auxiliary heads: the convolutions on four nodes, each head with its loss on a
// separate node.
TEST_F(cluster_controllers, googlenet_with_its_heads_on_three_nodes_trains_to_the_same_bits) {
  make_cluster_like("heads.toml");
  start_all();
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/googlenet.toml", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::vector<std::string> small{"data.batch=4",         "data.examples=16",       "data.test_examples=4",
                                       "pipeline.packets=4",   "pipeline.fuse=\"auto\"", "eval.every=0",
                                       "train.finish.steps=2", "train.dynamics.lr=0.001"};
  auto placed = small;
  for (const char* s :
       {"topology.workers_per_group=4", "layer.loss1_fc.place=f1", "layer.loss2_fc.place=f2", "layer.pool5.place=f3"})
    placed.emplace_back(s);
  const auto want = hash_of(text, small);
  EXPECT_EQ(want.size(), 64u);
  EXPECT_EQ(hash_of(text, placed), want);
}

// The fully connected layers of LeNet on one node that serves the packets of three workers,
// evaluation included.
TEST_F(cluster_controllers, lenet_with_its_linear_layers_on_one_node_trains_to_the_same_bits) {
  make_cluster(3);
  start_all();
  const auto text = config_text("lenet_fashion.toml");
  const std::vector<std::string> few{"train.finish.steps=20", "eval.every=10", "eval.sampler={kind=\"sample\",examples=500}"};
  auto placed = few;
  for (const char* s : {"topology.workers_per_group=3", "layer.ip1.place=n2"}) placed.emplace_back(s);
  const auto want = hash_of(text, few);
  EXPECT_EQ(want.size(), 64u);
  EXPECT_EQ(hash_of(text, placed), want);
}

}  // namespace
}  // namespace troupe::testing_cluster
