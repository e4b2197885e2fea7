// Promise 14 (docs/promises.md): a member or client that is stopped for a while costs the other
// nodes no more memory than their send queues may hold. tests/nightly stops them for a minute.
#include "tests/faults/stopping.hpp"

namespace troupe::testing_cluster {
namespace {

class cluster_stopped : public stopping_test {
 protected:
  void SetUp() override {
    make_cluster(4);
    start_all();
  }
};

TEST_F(cluster_stopped, a_stopped_member_of_a_lockstep_job_costs_bounded_memory) { stop_a_member({}, 10s); }
TEST_F(cluster_stopped, a_stopped_member_of_an_asynchronous_job_costs_bounded_memory) {
  stop_a_member(
      {"train.sync={mode=\"downpour\"}", "train.dynamics.lr=0.001", "topology.worker_groups=4", "topology.workers_per_group=1"},
      10s);
}
TEST_F(cluster_stopped, a_stopped_client_that_follows_costs_bounded_memory) { stop_a_client(TROUPE_BIN_DIR, 10s); }

}  // namespace
}  // namespace troupe::testing_cluster
