// Promise 14 (docs/promises.md): whoever stands still for a while costs the others no more memory
// than their queues may hold. For a minute: tests/nightly.
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

TEST_F(cluster_stopped, a_member_of_a_job_in_lockstep) { stop_a_member({}, 10s); }
TEST_F(cluster_stopped, a_member_of_a_job_that_does_not_wait) {
  stop_a_member(
      {"train.sync={mode=\"downpour\"}", "train.dynamics.lr=0.001", "topology.worker_groups=4", "topology.workers_per_group=1"},
      10s);
}
TEST_F(cluster_stopped, a_client_that_follows) { stop_a_client(TROUPE_BIN_DIR, 10s); }

}  // namespace
}  // namespace troupe::testing_cluster
