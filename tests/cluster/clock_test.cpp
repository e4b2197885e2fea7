// Promise 24 (docs/promises.md): daemons whose clocks are an hour apart, either way, train
// together, lose a node and go on, to the same weights. Their clocks are shifted by a library that
// they are started with (clock/shifted_clock.cpp).
#include <signal.h>

#include <fstream>

#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

class cluster_clock : public cluster_test {
 protected:
  void start_at(const std::string& node, const char* seconds) {
    daemons_[node] = std::make_unique<process>(
        std::vector<std::string>{"/usr/bin/env", std::string("LD_PRELOAD=") + TROUPE_CLOCK,
                                 std::string("TROUPE_TEST_CLOCK=") + seconds, std::string(TROUPE_BIN_DIR) + "/trouped", "--cluster",
                                 path("cluster.toml"), "--node", node},
        folder_);
    ASSERT_TRUE(daemons_[node]->wait_out("ready " + node, 20s)) << daemons_[node]->log();
  }
  // What the daemon's clock said when it began, as it keeps it.
  std::int64_t began(const std::string& node) const {
    std::ifstream in(path("state/" + node + "/incarnation"));
    std::int64_t ms = 0;
    in >> ms;
    return ms;
  }
};

TEST_F(cluster_clock, daemons_an_hour_apart_either_way_train_lose_a_node_and_take_it_again) {
  make_cluster(3);
  start_at("n1", "0");
  start_at("n2", "3600");
  start_at("n3", "-3600");
  for (const auto& n : names_) ASSERT_TRUE(joined(n)) << n;
  EXPECT_GT(began("n2"), began("n1") + 3'000'000) << "its clock is an hour ahead";
  EXPECT_LT(began("n3"), began("n1") - 3'000'000) << "its clock is an hour behind";
  auto set = workers(3, 2);
  set.insert(set.end(), {"train.finish.steps=4000", "eval.every=0", "checkpoint.every=100"});
  const auto right = run(tiny_job(), set);
  ASSERT_EQ(right.outcome.exit_code(), 0);
  for (const char* node : {"n2", "n3"}) {
    auto b = begin(tiny_job(), set);
    ASSERT_TRUE(b->wait_event("step", 20s, 250));
    kill_hard(node);
    ASSERT_TRUE(b->wait_event("recovered", 15s)) << node;
    start_at(node, node == std::string("n2") ? "3600" : "-3600");
    ASSERT_TRUE(b->wait_event("moved", 20s)) << node << " is taken again";
    const auto r = b->join();
    ASSERT_EQ(r.outcome.exit_code(), 0) << node;
    EXPECT_EQ(r.text("weights_sha256"), right.text("weights_sha256")) << node;
  }
}

// The coordinator's own clock wrong: its checkpoints and its journal are as good as any.
TEST_F(cluster_clock, a_coordinator_an_hour_behind_that_is_back_with_the_right_clock_goes_on) {
  make_cluster(2);
  start_at("n1", "3600");
  start_at("n2", "0");
  for (const auto& n : names_) ASSERT_TRUE(joined(n)) << n;
  auto set = workers(2, 1);
  set.insert(set.end(), {"train.finish.steps=4000", "eval.every=0", "checkpoint.every=100"});
  const auto right = run(tiny_job(), set);
  ASSERT_EQ(right.outcome.exit_code(), 0);
  auto b = begin(tiny_job(), set);
  ASSERT_TRUE(b->wait_event("step", 20s, 250));
  kill_hard("n1");
  start_at("n1", "0");  // its clock has been put right: it is an hour earlier now
  const auto r = b->join();
  ASSERT_EQ(r.outcome.exit_code(), 0);
  EXPECT_EQ(r.text("weights_sha256"), right.text("weights_sha256"));
}

}  // namespace
}  // namespace troupe::testing_cluster
