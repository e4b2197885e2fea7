// What a cluster adds to a job that its file does not say: an interval between checkpoints, and
// advice if the loss of a node would set the job back.
#include "runtime/node/executor/job_reading.hpp"
#include "runtime/node/node_tables.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

using namespace control;

cluster_spec cluster_of(int nodes) {
  cluster_spec c;
  c.name = "lab";
  for (int i = 1; i <= nodes; ++i) {
    node_spec n;
    n.name = "n" + std::to_string(i);
    n.address = "127.0.0.1:" + std::to_string(7700 + i);
    n.roles = {"worker", "server"};
    if (i == 1) n.roles = {"coordinator", "data", "worker", "server"};
    c.nodes.push_back(n);
  }
  return c;
}

std::shared_ptr<prepared_job> read(const cluster_spec& c, const std::vector<std::string>& set) {
  const job_place at{c, "n1", "", std::make_shared<const tables>(node_tables()), {}};
  auto r = read_job(at, {"job.toml", tiny_job(), set});
  if (r) return *r;
  ADD_FAILURE() << r.error().front().to_string();
  return nullptr;
}

TEST(cluster_defaults, a_job_writes_a_checkpoint_every_five_minutes_unless_its_file_says_otherwise) {
  const auto c = cluster_of(2);
  const auto interval = [&](const std::vector<std::string>& set) {
    const auto j = read(c, set);
    return std::pair(j->spec.checkpoint.every_steps, j->spec.checkpoint.every_seconds);
  };
  EXPECT_EQ(interval({}), (std::pair<std::int64_t, double>(0, 300)));
  EXPECT_EQ(interval({"checkpoint.keep=3"}), (std::pair<std::int64_t, double>(0, 300)));
  EXPECT_EQ(interval({"checkpoint.every=50"}), (std::pair<std::int64_t, double>(50, 0)));
  EXPECT_EQ(interval({"checkpoint.every=1h"}), (std::pair<std::int64_t, double>(0, 3600)));
  EXPECT_EQ(interval({"checkpoint.every=never"}), (std::pair<std::int64_t, double>(0, 0)));
}

TEST(cluster_defaults, advises_replicas_if_another_node_than_the_coordinators_has_the_only_copy_of_a_shard) {
  const auto c = cluster_of(3);
  const auto advice = [&](std::vector<std::string> set, const std::vector<std::string>& more = {}) {
    set.insert(set.end(), more.begin(), more.end());
    return advice_on_replicas(*read(c, set), "n1");
  };
  EXPECT_EQ(advice(workers(2, 2)),
            "node n2 has the only copy of a shard: its failure sets the job back to its newest checkpoint; with --set "
            "topology.replicas=2 a second node has a copy");
  EXPECT_EQ(advice(workers(3, 3), {"checkpoint.every=never"}),
            "nodes n2, n3 have the only copies of shards: the failure of one sets the job back to its newest checkpoint, and it "
            "writes none; with --set topology.replicas=2 a second node has a copy");
  EXPECT_EQ(advice(workers(2, 2), {"topology.replicas=2"}), "");
  EXPECT_EQ(advice(workers(2, 2), {"job.max_failures=0"}), "") << "the first failure ends the job";
  EXPECT_EQ(advice(workers(2, 1)), "") << "the only shard is on the coordinator's node";
  EXPECT_EQ(advice(workers(2, 2), {"pipeline.weights=latest"}), "") << "every failure sets it back, with replicas too";
  EXPECT_EQ(advice(workers(2, 2), {"train.sync.mode=gossip"}), "") << "gossip takes no replicas";
}

class cluster_advice : public cluster_test {};

TEST_F(cluster_advice, is_one_event_of_the_job) {
  make_cluster(2);
  start_all();
  const auto alerts = [](const run_result& r) {
    std::string all;
    for (const auto& e : r.events)
      if (std::string(name_of(e.event).name) == "alert") all += message_of(e.event) + "\n";
    return all;
  };
  const auto r = run(tiny_job(), workers(2, 2));
  EXPECT_EQ(r.outcome.exit_code(), 0);
  EXPECT_TRUE(alerts(r).starts_with("node n2 has the only copy of a shard: ")) << alerts(r);
  EXPECT_EQ(r.count("alert"), 1u);
  auto replicated = workers(2, 2);
  replicated.push_back("topology.replicas=2");
  EXPECT_EQ(alerts(run(tiny_job(), replicated)), "");
}

}  // namespace
}  // namespace troupe::testing_cluster
