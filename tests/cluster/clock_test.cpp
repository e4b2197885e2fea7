// Promise 24 (docs/promises.md): daemons whose clocks differ by an hour train together and recover
// from a node failure, with the same final weights. A preloaded library shifts their clocks
// (clock/shifted_clock.cpp).
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
  // Milliseconds of the daemon's clock at its start, from its incarnation file.
  std::int64_t began(const std::string& node) const {
    std::ifstream in(path("state/" + node + "/incarnation"));
    std::int64_t ms = 0;
    in >> ms;
    return ms;
  }
};

TEST_F(cluster_clock, jobs_recover_and_add_the_node_again_when_clocks_differ_by_an_hour) {
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
    ASSERT_TRUE(b->wait_event("moved", 20s)) << node << " is added again";
    const auto r = b->join();
    ASSERT_EQ(r.outcome.exit_code(), 0) << node;
    EXPECT_EQ(r.text("weights_sha256"), right.text("weights_sha256")) << node;
  }
}

// The checkpoints and the journal of a coordinator with a wrong clock remain usable.
TEST_F(cluster_clock, a_job_continues_when_the_restarted_coordinator_is_an_hour_earlier) {
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
  start_at("n1", "0");  // the clock is corrected: an hour earlier than before
  const auto r = b->join();
  ASSERT_EQ(r.outcome.exit_code(), 0);
  EXPECT_EQ(r.text("weights_sha256"), right.text("weights_sha256"));
}

}  // namespace
}  // namespace troupe::testing_cluster
