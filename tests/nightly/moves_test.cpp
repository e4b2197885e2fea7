// A hundred moves, and twenty drains with the node added again, on three daemons that train: the
// weights equal those of an undisturbed job.
#include <algorithm>
#include <random>

#include "tests/cluster/moves.hpp"

namespace troupe::testing_cluster {
namespace {

class nightly_moves : public move_test {};

TEST_F(nightly_moves, a_hundred_moves_and_twenty_drains_change_no_bit) {
  make_cluster(3);
  start_all();
  std::mt19937 rng(5);
  const std::vector<std::string> layers{"conv1", "ip1", "relu1", "ip2"};
  std::map<std::string, std::string> at;
  std::vector<std::string> lines;
  for (int i = 0; i < 100; ++i) {
    const auto& layer = layers[rng() % layers.size()];
    auto node = "n" + std::to_string(1 + rng() % 3);
    if (node == at[layer]) node = node == "n1" ? "n2" : "n1";
    // A move to the current node would be refused, so another node is drawn.
    lines.push_back("move " + layer + " " + node);
    at[layer] = node;
    if (i % 5 != 4) continue;
    const auto gone = "n" + std::to_string(2 + rng() % 2);
    lines.push_back("drain " + gone);
    lines.push_back("add-node " + gone);
  }
  auto ms = train_with(tiny_job(), workers(3, 2), lines);
  ASSERT_EQ(ms.size(), lines.size());
  std::sort(ms.begin(), ms.end());
  std::printf("%zu changes of plan: paused %.0f ms in the median, %.0f ms at most\n", ms.size(), ms[ms.size() / 2], ms.back());
}

}  // namespace
}  // namespace troupe::testing_cluster
