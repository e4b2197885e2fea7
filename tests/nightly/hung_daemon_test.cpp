// A daemon whose actors hang while its network threads run: only heartbeats continue. No service
// manager watches it.
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <fstream>

#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

class nightly_hung : public cluster_test {
 protected:
  // Stops the actor threads of a daemon by ptrace. Returns their ids.
  std::vector<pid_t> stop_actors(const std::string& node) {
    std::vector<pid_t> stopped;
    const auto tasks = std::filesystem::path("/proc") / std::to_string(daemon(node).pid()) / "task";
    for (const auto& t : std::filesystem::directory_iterator(tasks)) {
      std::string name;
      std::getline(std::ifstream(t.path() / "comm") >> std::ws, name);
      if (!name.starts_with("caf")) continue;
      const auto id = static_cast<pid_t>(std::stol(t.path().filename().string()));
      if (::ptrace(PTRACE_SEIZE, id, nullptr, nullptr) != 0 || ::ptrace(PTRACE_INTERRUPT, id, nullptr, nullptr) != 0) continue;
      int status = 0;
      if (::waitpid(id, &status, __WALL) == id && WIFSTOPPED(status)) stopped.push_back(id);
    }
    return stopped;
  }
  static void reap(const std::vector<pid_t>& threads) {
    for (const auto id : threads) {
      int status = 0;
      while (::waitpid(id, &status, __WALL) == id && !WIFEXITED(status) && !WIFSIGNALED(status)) {
      }
    }
  }
};

TEST_F(nightly_hung, a_daemon_with_hung_actors_exits_and_its_jobs_continue) {
  make_cluster(3);
  start_all();
  auto b = begin(tiny_job(), endless(workers(3, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 50));
  const auto threads = stop_actors("n3");
  if (threads.empty()) GTEST_SKIP() << "processes cannot be traced here";
  ASSERT_TRUE(daemon("n3").wait_log("actors of this daemon have been hung for 60 s beyond their limit: exit", 100s));
  reap(threads);
  EXPECT_EQ(daemon("n3").wait(), 1);
  ASSERT_TRUE(b->wait_event("recovered", 30s));
  ask("n1", "stop");
  EXPECT_EQ(b->join().outcome.exit_code(), 0);
}

}  // namespace
}  // namespace troupe::testing_cluster
