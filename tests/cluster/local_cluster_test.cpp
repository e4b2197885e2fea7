// scripts/local_cluster run as by a user: when one daemon dies, the others continue.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

#include <fstream>

#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

namespace fs = std::filesystem;

// Binds the port for this process, like free_port(). Returns false if it is in use.
bool hold(std::uint16_t port) {
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(port);
  return ::bind(s, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0;
}

std::uint16_t ports_in_a_row(int n) {
  for (int tries = 0; tries < 200; ++tries) {
    const auto first = free_port();
    int held = 1;
    while (held < n && first + held < 65535 && hold(static_cast<std::uint16_t>(first + held))) ++held;
    if (held == n) return first;
  }
  throw std::runtime_error("cannot find consecutive free ports");
}

// The process id of this node's daemon; 0 if none runs.
pid_t daemon_of(const std::string& file, const std::string& node) {
  for (const auto& e : fs::directory_iterator("/proc")) {
    std::ifstream in(e.path() / "cmdline", std::ios::binary);
    std::string changes(std::istreambuf_iterator<char>(in), {});
    const std::string wanted = std::string("--cluster\0", 10) + file + std::string("\0--node\0", 8) + node + '\0';
    if (changes.find("trouped") != std::string::npos && changes.find(wanted) != std::string::npos)
      return static_cast<pid_t>(std::stol(e.path().filename().string()));
  }
  return 0;
}

class local_cluster : public cluster_test {};

TEST_F(local_cluster, the_other_daemons_continue_when_one_dies) {
  const auto script = std::string(TROUPE_SOURCE_DIR) + "/scripts/local_cluster";
  const auto file = path("three/cluster.toml");
  process run({"/usr/bin/env", "PORT=" + std::to_string(ports_in_a_row(3)), std::string("BIN=") + TROUPE_BIN_DIR, "/bin/bash",
               script, "3", path("three")},
              folder_);
  ASSERT_TRUE(run.wait_out("3 nodes are up", 60s)) << run.log();
  ASSERT_GT(daemon_of(file, "n2"), 0);
  ::kill(daemon_of(file, "n2"), SIGKILL);
  EXPECT_TRUE(run.wait_log("n2 has ended", 20s)) << run.log();
  write("job.toml", tiny_job());
  process train({std::string(TROUPE_BIN_DIR) + "/troupe", "train", path("job.toml"), "--cluster", file}, folder_);
  EXPECT_EQ(train.wait(), 0) << train.log();
  EXPECT_GT(daemon_of(file, "n1"), 0);
  EXPECT_GT(daemon_of(file, "n3"), 0);
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 143) << run.log();
  EXPECT_EQ(daemon_of(file, "n1") + daemon_of(file, "n3"), 0);
}

// n2 ends while the script waits for n3 to start.
TEST_F(local_cluster, a_daemon_that_ends_before_all_are_up_is_reported) {
  fs::create_directories(path("bin"));
  fs::create_symlink(std::string(TROUPE_BIN_DIR) + "/troupe", path("bin/troupe"));
  fs::create_symlink(std::string(TROUPE_SOURCE_DIR) + "/tests/cluster/brief_daemon.py", path("bin/trouped"));
  const auto script = std::string(TROUPE_SOURCE_DIR) + "/scripts/local_cluster";
  process run(
      {"/usr/bin/env", "PORT=" + std::to_string(ports_in_a_row(3)), "BIN=" + path("bin"), "/bin/bash", script, "3", path("three")},
      folder_);
  ASSERT_TRUE(run.wait_out("3 nodes are up", 60s)) << run.log();
  EXPECT_TRUE(run.wait_log("n2 has ended (137), 2 of 3 continue", 20s)) << run.log();
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 143) << run.log();
}

}  // namespace
}  // namespace troupe::testing_cluster
