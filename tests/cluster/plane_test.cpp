// Misbehaving peers with a valid certificate, at real daemons: they forge messages of nodes, send
// requests and never read the answers, or submit a job whose check never ends. Other peers and jobs
// are not affected.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/cluster/processes.hpp"
#include "tests/cluster/rude_operator.hpp"

namespace troupe::testing_cluster {
namespace {

using namespace control;

class cluster_plane : public cluster_test {
 protected:
  // The largest resident memory of the daemon so far, in MiB.
  std::uint64_t max_memory(const std::string& node) {
    std::ifstream in("/proc/" + std::to_string(daemon(node).pid()) + "/status");
    for (std::string word; in >> word;)
      if (word == "VmHWM:") {
        std::uint64_t kib = 0;
        in >> kib;
        return kib >> 10;
      }
    return 0;
  }
  std::unique_ptr<rude_operator> rude(const std::string& node) {
    return std::make_unique<rude_operator>(path("certs"), control_port(node));
  }
};

TEST_F(cluster_plane, a_client_cannot_end_a_job_with_forged_node_messages) {
  make_cluster(2);
  start_all();
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 20));
  const auto c = rude("n1");
  c->send(follow{1});
  const auto known = c->first<submitted>();
  ASSERT_TRUE(known && known->job != 0);
  for (const control::message& m : std::vector<control::message>{
           trouble{known->job, "n2", "forged"}, trouble{known->job, "n1", "forged"}, leaving{}, ended{known->job, 1},
           join{"127.0.0.1:1", "x", protocol, 1, std::uint64_t{1} << 63}, end_job{known->job}})
    ASSERT_TRUE(c->send(m));
  // The member also accepts end_job only from the coordinator.
  const auto d = rude("n2");
  ASSERT_TRUE(d->send(end_job{known->job}));
  EXPECT_TRUE(daemon("n1").wait_log("must not send 'trouble'", 10s));
  EXPECT_TRUE(daemon("n2").wait_log("must not send 'end_job'", 10s));
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  const auto r = b->join();
  ASSERT_FALSE(r.events.empty());
  EXPECT_EQ(message_of(r.events.back().event), "stopped") << "ended by the stop command";
  EXPECT_EQ(run(tiny_job(), workers(2, 1)).outcome.exit_code(), 0);
}

// Otherwise the answer to a `submit` of a REPL session would go to the wrong client.
TEST_F(cluster_plane, a_client_cannot_use_the_id_range_of_repl_submissions) {
  make_cluster(1);
  start_all();
  const auto c = rude("n1");
  ASSERT_TRUE(c->send(submit{{"job.toml", "text", {}}, true, std::uint64_t{1} << 63 | 1}));
  EXPECT_TRUE(c->let_go());
}

TEST_F(cluster_plane, a_client_that_never_reads_answers_is_disconnected_and_costs_little) {
  make_cluster(2);
  start_all();
  const auto before = max_memory("n2");
  const auto c = rude("n2");
  // 40,000 answers of a few KiB.
  for (std::uint64_t i = 0; i < 40'000 && c->send(control::ask{i, false, "help", {}}); ++i) {
  }
  EXPECT_TRUE(c->let_go());
  EXPECT_TRUE(daemon("n2").wait_log("does not read its answers: disconnected", 10s));
  EXPECT_LT(max_memory("n2") - before, 100u);
  EXPECT_NE(ask("n2", "status").text.find("n2"), std::string::npos);
}

TEST_F(cluster_plane, a_client_that_follows_5000_times_and_never_reads_costs_little) {
  make_cluster(1);
  start_all();
  auto b = begin(tiny_job(), endless({}));
  ASSERT_TRUE(b->wait_event("step", 20s, 300));
  const auto before = max_memory("n1");
  const auto c = rude("n1");
  for (int i = 0; i < 5'000; ++i) ASSERT_TRUE(c->send(follow{1})) << i;
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  b->join();
  EXPECT_LT(max_memory("n1") - before, 100u);
}

// A submission's check does not end: the running job does not wait for it.
TEST_F(cluster_plane, a_job_runs_and_ends_while_the_check_of_another_hangs) {
  const auto plugin = std::string(TROUPE_BIN_DIR) + "/../lib/plugins/libtest_plugin_gate.so";
  if (!std::filesystem::exists(plugin)) GTEST_SKIP() << "the test plugins are not built";
  plugins_ = {plugin};
  make_cluster(2);
  start_all();
  auto runs = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(runs->wait_event("step", 20s, 20));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  auto slow = tiny_job();
  slow.insert(slow.find("[[layer]]\nname = \"loss\""),
              "[[layer]]\nname = \"gate\"\ntype = \"gate\"\ninputs = [\"ip2\"]\npipe = \"" + path("pipe") + "\"\n");
  auto reads = begin(slow);
  int end = -1;  // of the pipe; open() succeeds once the daemon has opened it
  for (const auto begun = clock::now(); end < 0 && since(begun) < 20s;) {
    end = ::open(path("pipe").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    daemon("n1").wait_log("\x01", 10ms);
  }
  ASSERT_GE(end, 0);
  EXPECT_EQ(ask("n1", "checkpoint").how, repl_reply::kind::ok);
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  const auto r = runs->join();
  ASSERT_FALSE(r.events.empty());
  EXPECT_EQ(message_of(r.events.back().event), "stopped");
  EXPECT_EQ(r.text("weights_sha256").size(), 64u);
  // The submission is dropped when its client disconnects.
  reads->detach();
  reads.reset();
  EXPECT_TRUE(daemon("n1").wait_log("refused: its client disconnected", 10s));
  std::filesystem::remove(path("pipe"));
  ::close(end);
  EXPECT_EQ(run(tiny_job(), workers(2, 1)).outcome.exit_code(), 0) << "the next submission is checked";
}

TEST_F(cluster_plane, a_daemon_ends_while_the_check_of_a_submission_hangs) {
  const auto plugin = std::string(TROUPE_BIN_DIR) + "/../lib/plugins/libtest_plugin_gate.so";
  if (!std::filesystem::exists(plugin)) GTEST_SKIP() << "the test plugins are not built";
  plugins_ = {plugin};
  make_cluster(1);
  start_all();
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  auto slow = tiny_job();
  slow.insert(slow.find("[[layer]]\nname = \"loss\""),
              "[[layer]]\nname = \"gate\"\ntype = \"gate\"\ninputs = [\"ip2\"]\npipe = \"" + path("pipe") + "\"\n");
  auto reads = begin(slow);
  int end = -1;
  for (const auto begun = clock::now(); end < 0 && since(begun) < 20s;) {
    end = ::open(path("pipe").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    daemon("n1").wait_log("\x01", 10ms);
  }
  ASSERT_GE(end, 0);
  daemon("n1").signal(SIGTERM);
  EXPECT_EQ(daemon("n1").wait(25s), 0);
  EXPECT_NE(daemon("n1").log().find("a submission is still being read: exit"), std::string::npos);
  const auto r = reads->join();
  EXPECT_EQ(r.outcome.exit_code(), 2);
  ::close(end);
}

}  // namespace
}  // namespace troupe::testing_cluster
