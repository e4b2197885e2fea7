// Certificate folders as `troupe init-cluster` creates them, one for each node: the machine of a
// node needs only its own folder.
#include <fstream>
#include <set>

#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

namespace fs = std::filesystem;

class cluster_folders : public cluster_test {};

TEST_F(cluster_folders, a_node_needs_only_its_own_folder_and_an_operator_only_the_clients) {
  make_cluster(2);  // the flat folder that it creates is removed
  fs::remove_all(folder_ / "certs");
  process init({std::string(TROUPE_BIN_DIR) + "/troupe", "init-cluster", "--cluster", path("cluster.toml")}, folder_);
  ASSERT_EQ(init.wait(), 0) << init.log();
  fs::rename(folder_ / "certs", folder_ / "made");
  // Every machine gets the cluster file and its own certificate folder.
  for (const std::string who : {"n1", "n2", "client"}) {
    fs::create_directories(folder_ / who / "certs");
    fs::copy_file(folder_ / "cluster.toml", folder_ / who / "cluster.toml");
    ASSERT_TRUE(fs::is_directory(folder_ / "made" / who)) << who;
    fs::copy(folder_ / "made" / who, folder_ / who / "certs" / who, fs::copy_options::recursive);
  }
  std::map<std::string, std::unique_ptr<process>> daemons;
  for (const std::string n : {"n1", "n2"}) {
    daemons[n] = std::make_unique<process>(
        std::vector<std::string>{std::string(TROUPE_BIN_DIR) + "/trouped", "--cluster", path(n + "/cluster.toml"), "--node", n},
        folder_);
    ASSERT_TRUE(daemons[n]->wait_out("ready " + n, 20s)) << daemons[n]->log();
  }
  ASSERT_TRUE(daemons["n1"]->wait_log("node n2 has joined", 15s)) << daemons["n1"]->log();
  write("job.toml", tiny_job());
  process train({std::string(TROUPE_BIN_DIR) + "/troupe", "train", path("job.toml"), "--cluster", path("client/cluster.toml"),
                 "--set", "topology.workers_per_group=2"},
                folder_);
  EXPECT_EQ(train.wait(), 0) << train.log();
}

}  // namespace
}  // namespace troupe::testing_cluster
