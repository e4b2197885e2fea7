// Daemons that are missing, die, come back or are told to shut down: errors within 10 s that name
// the node, and the other daemons continue.
#include <signal.h>

#include <fstream>

#include "runtime/node/executor/job_folders.hpp"
#include "runtime/record/checkpoint.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

class cluster_failures : public cluster_test {
 protected:
  void SetUp() override { make_cluster(3); }
  static std::string first_message(const run_result& r) { return r.outcome.messages.empty() ? "" : r.outcome.messages.front(); }
  static std::vector<std::string> losing_nobody(std::vector<std::string> set) {
    set.emplace_back("job.max_failures=0");
    return set;
  }
  static std::string file_text(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // The only job folder of n1's state.
  std::string checkpoint_folder() const {
    for (const auto& e : std::filesystem::directory_iterator(folder_ / "state" / "n1"))
      if (control::is_job_folder_name(e.path().filename().string())) return e.path().string();
    return {};
  }
};

TEST_F(cluster_failures, a_missing_daemon_is_an_error_naming_it_within_ten_seconds) {
  start("n1");
  start("n2");
  ASSERT_TRUE(joined("n2"));
  const auto begun = clock::now();
  const auto r = run(tiny_job(), losing_nobody(workers(3, 1)));
  EXPECT_LT(since(begun), 10s);
  EXPECT_EQ(r.outcome.exit_code(), 1);
  EXPECT_NE(first_message(r).find("n3"), std::string::npos) << first_message(r);
  EXPECT_EQ(r.text("where"), "n3");
  EXPECT_EQ(run(tiny_job(), workers(2, 2)).outcome.exit_code(), 0) << "the other daemons still run jobs";
}

TEST_F(cluster_failures, a_missing_or_silent_coordinator_is_an_error_within_ten_seconds) {
  auto begun = clock::now();
  const auto nobody = run(tiny_job());
  EXPECT_LT(since(begun), 10s);
  EXPECT_EQ(nobody.outcome.exit_code(), 1);
  EXPECT_NE(first_message(nobody).find("the daemon of node n1 does not answer at 127.0.0.1"), std::string::npos)
      << first_message(nobody);
  start("n1");
  daemon("n1").signal(SIGSTOP);  // accepts connections and does not answer
  begun = clock::now();
  const auto silent = run(tiny_job());
  EXPECT_LT(since(begun), 10s);
  EXPECT_EQ(silent.outcome.exit_code(), 1);
  daemon("n1").signal(SIGCONT);
}

TEST_F(cluster_failures, a_killed_node_ends_a_job_without_failures_and_the_next_job_runs) {
  start_all();
  auto b = begin(tiny_job(), endless(losing_nobody(workers(3, 2))));
  ASSERT_TRUE(b->wait_event("step", 20s, 20));
  const auto begun = clock::now();
  kill_hard("n3");
  const auto r = b->join();
  EXPECT_LT(since(begun), 10s);
  EXPECT_EQ(r.outcome.exit_code(), 1);
  EXPECT_EQ(r.text("where"), "n3");
  EXPECT_NE(first_message(r).find("n3 is lost"), std::string::npos) << first_message(r);
  RecordProperty("ms_until_named", static_cast<int>(since(begun).count()));
  std::printf("kill -9: error after %d ms\n", static_cast<int>(since(begun).count()));
  EXPECT_EQ(run(tiny_job(), workers(2, 2)).outcome.exit_code(), 0) << "a job without n3";
  start("n3");
  ASSERT_TRUE(joined("n3"));
  const auto again = run(tiny_job(), workers(3, 2));
  EXPECT_EQ(again.outcome.exit_code(), 0) << first_message(again);
}

TEST_F(cluster_failures, a_stopped_daemon_is_lost_within_ten_seconds_and_fenced_when_it_wakes) {
  start_all();
  auto b = begin(tiny_job(), endless(losing_nobody(workers(3, 1))));
  ASSERT_TRUE(b->wait_event("step", 20s, 20));
  const auto begun = clock::now();
  daemon("n2").signal(SIGSTOP);
  const auto r = b->join();
  EXPECT_LT(since(begun), 10s);
  EXPECT_EQ(r.text("where"), "n2") << first_message(r);
  std::printf("SIGSTOP: error after %d ms\n", static_cast<int>(since(begun).count()));
  daemon("n2").signal(SIGCONT);
  ASSERT_TRUE(daemon("n1").wait_log("node n2 is lost", 10s));
  ASSERT_TRUE(daemon("n2").wait_log("is lost", 10s));
  const auto next = run(tiny_job(), workers(3, 1));
  EXPECT_EQ(next.outcome.exit_code(), 0) << first_message(next);
}

TEST_F(cluster_failures, a_restarted_coordinator_gets_its_members_back_and_runs_jobs) {
  start_all();
  auto b = begin(tiny_job(), endless(workers(3, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 20));
  kill_hard("n1");
  start("n1");
  ASSERT_TRUE(daemon("n1").wait_log("job 1 (tiny) runs", 30s)) << "the job continues";
  ASSERT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  EXPECT_EQ(b->join().outcome.exit_code(), 0);
  const auto r = run(tiny_job(), workers(3, 1));
  EXPECT_EQ(r.outcome.exit_code(), 0) << first_message(r);
}

TEST_F(cluster_failures, sigterm_during_a_job_leaves_a_checkpoint_that_loads) {
  start_all();
  wait_for_daemon_ = 1s;
  auto b = begin(tiny_job(), endless(workers(3, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 20));
  const auto begun = clock::now();
  daemon("n1").signal(SIGTERM);
  const auto r = b->join();
  EXPECT_EQ(daemon("n1").wait(25s), 0);
  EXPECT_LT(since(begun), 25s);
  ASSERT_FALSE(r.events.empty());
  EXPECT_TRUE(r.events.back().event.is<preempted_event>());
  EXPECT_EQ(r.outcome.how, cluster_outcome::end::preempted);
  EXPECT_EQ(r.outcome.exit_code(), 1);
  EXPECT_EQ(r.count("checkpoint"), 1u);
  EXPECT_EQ(r.text("file"), checkpoint_files(checkpoint_folder()).at(0));
  EXPECT_NE(first_message(r).find(r.text("file")), std::string::npos) << first_message(r);
  const auto found = load_newest_checkpoint(checkpoint_folder());
  ASSERT_TRUE(found.newest) << checkpoint_folder();
  EXPECT_EQ(found.newest->step, r.events.back().event.step);
  EXPECT_EQ(found.newest->job, "tiny");
}

TEST_F(cluster_failures, a_job_resumed_after_sigterm_ends_with_the_bits_of_an_unbroken_run) {
  const auto program = std::string(TROUPE_BIN_DIR) + "/troupe";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "the program troupe is not built";
  start_all();
  const auto job = write("job.toml", tiny_job());
  const std::vector<std::string> changes = {program, "train",       job, "--json", "--set", "train.finish.steps=4000",
                                            "--set", "eval.every=0"};
  const auto hash = [&](std::vector<std::string> more) {
    more.insert(more.begin(), changes.begin(), changes.end());
    process p(more, folder_);
    EXPECT_EQ(p.wait(60s), 0) << p.log();
    const std::string key = "\"weights_sha256\":\"";
    const auto at = p.out().rfind(key);
    return at == std::string::npos ? "none" : p.out().substr(at + key.size(), 64);
  };
  auto set = workers(3, 2);
  set.insert(set.end(), {"train.finish.steps=4000", "eval.every=0"});
  wait_for_daemon_ = 1s;
  auto b = begin(tiny_job(), set);
  ASSERT_TRUE(b->wait_event("step", 20s, 20));
  daemon("n1").signal(SIGTERM);
  const auto r = b->join();
  ASSERT_TRUE(r.events.back().event.is<preempted_event>());
  EXPECT_EQ(daemon("n1").wait(25s), 0);
  const auto file = checkpoint_files(checkpoint_folder()).at(0);
  EXPECT_EQ(hash({"--resume", file}), hash({}));
}

TEST_F(cluster_failures, sigterm_of_a_required_member_stops_the_job_with_a_checkpoint) {
  start_all();
  auto b = begin(tiny_job(), endless(losing_nobody(workers(3, 1))));
  ASSERT_TRUE(b->wait_event("step", 20s, 20));
  daemon("n2").signal(SIGTERM);
  EXPECT_EQ(daemon("n2").wait(25s), 0);
  const auto r = b->join();
  EXPECT_EQ(r.outcome.how, cluster_outcome::end::preempted) << first_message(r);
  EXPECT_EQ(r.count("checkpoint"), 1u);
  EXPECT_TRUE(load_newest_checkpoint(checkpoint_folder()).newest);
}

TEST_F(cluster_failures, sighup_writes_a_checkpoint_and_training_continues) {
  start_all();
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 5));
  daemon("n1").signal(SIGHUP);
  ASSERT_TRUE(b->wait_event("checkpoint", 10s));
  const auto found = load_newest_checkpoint(checkpoint_folder());
  ASSERT_TRUE(found.newest);
  EXPECT_TRUE(b->wait_event("step", 20s, found.newest->step + 10));
  // Two signals at once are one request.
  daemon("n1").signal(SIGTERM);
  daemon("n1").signal(SIGINT);
  EXPECT_EQ(daemon("n1").wait(25s), 0);
}

TEST_F(cluster_failures, a_daemon_with_port_zero_prints_the_port_that_it_got) {
  write("zero.toml",
        "[cluster]\nname = \"lab\"\n[cluster.tls]\ndir = \"certs\"\n[[node]]\nname = \"n1\"\naddress = \"127.0.0.1:0\"\n");
  process p({std::string(TROUPE_BIN_DIR) + "/trouped", "--cluster", "zero.toml", "--node", "n1"}, folder_);
  ASSERT_TRUE(p.wait_out(" data 127.0.0.1:", 10s)) << p.log();
  const std::string word = "control 127.0.0.1:";
  ports_["n1"] = static_cast<std::uint16_t>(std::stoi(p.out().substr(p.out().find(word) + word.size())));
  EXPECT_EQ(run(tiny_job()).outcome.exit_code(), 0);
  p.signal(SIGTERM);
  EXPECT_EQ(p.wait(10s), 0);
}

TEST_F(cluster_failures, a_clock_set_back_between_two_starts_of_a_daemon_has_no_effect) {
  start("n1");
  start("n2");
  ASSERT_TRUE(joined("n2"));
  kill_hard("n2");
  // The stored incarnation is an hour in the future.
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  std::filesystem::create_directories(folder_ / "state" / "n2");
  write("state/n2/incarnation", std::to_string((now + 1h).count()) + "\n");
  start("n2");
  ASSERT_TRUE(joined("n2"));
  kill_hard("n2");
  start("n2");
  ASSERT_TRUE(joined("n2")) << "a lower incarnation is refused";
  EXPECT_EQ(run(tiny_job(), workers(2, 1)).outcome.exit_code(), 0);
}

TEST_F(cluster_failures, an_incarnation_from_the_far_future_is_not_continued) {
  start("n1");
  std::filesystem::create_directories(folder_ / "state" / "n2");
  write("state/n2/incarnation", "9223372036854775808\n");  // written by a very wrong clock or a damaged disk
  start("n2");
  ASSERT_TRUE(joined("n2")) << "peers refuse such an incarnation";
}

TEST_F(cluster_failures, errors_that_prevent_a_start_are_reported_within_five_seconds) {
  const auto try_start = [&](std::vector<std::string> changes, std::string& said) {
    changes.insert(changes.begin(), std::string(TROUPE_BIN_DIR) + "/trouped");
    process p(changes, folder_);
    const int code = p.wait(5s);
    said = p.log();
    return code;
  };
  std::string said;
  EXPECT_EQ(try_start({"--cluster", "cluster.toml", "--node", "n1", "--check"}, said), 0) << said;
  start("n1");
  EXPECT_EQ(try_start({"--cluster", "cluster.toml", "--node", "n1"}, said), 2);
  EXPECT_NE(said.find("127.0.0.1:" + std::to_string(control_port("n1")) + " is already in use"), std::string::npos) << said;
  EXPECT_NE(said.find("process " + std::to_string(daemon("n1").pid())), std::string::npos) << said;
  EXPECT_EQ(try_start({"--cluster", "cluster.toml", "--node", "n11"}, said), 2);
  EXPECT_NE(said.find("did you mean 'n1'"), std::string::npos) << said;
  EXPECT_EQ(try_start({"--cluster", "none.toml", "--node", "n1"}, said), 2);
  EXPECT_EQ(try_start({"--node", "n1"}, said), 2);
  std::filesystem::remove(folder_ / "certs" / "n2.key");
  EXPECT_EQ(try_start({"--cluster", "cluster.toml", "--node", "n2"}, said), 2);
  EXPECT_NE(said.find("n2.key"), std::string::npos) << said;
  std::filesystem::rename(folder_ / "certs", folder_ / "hidden");
  EXPECT_EQ(try_start({"--cluster", "cluster.toml", "--node", "n3", "--check"}, said), 2);
  EXPECT_NE(said.find("init-cluster"), std::string::npos) << said;
}

// Two daemons of a node never share its state folder, not even if the first is stopped and would
// continue its jobs after SIGCONT.
TEST_F(cluster_failures, a_second_daemon_with_the_same_state_folder_does_not_start) {
  start("n1");
  const auto what = [&] {
    return file_text(folder_ / "state" / "n1" / "incarnation") + file_text(folder_ / "state" / "n1" / "journal");
  };
  daemon("n1").signal(SIGSTOP);
  const auto before = what();
  // The second daemon has another port, so the port does not prevent its start.
  write("elsewhere.toml",
        "[cluster]\nname = \"test\"\n[cluster.tls]\ndir = \"certs\"\n[[node]]\nname = \"n1\"\naddress = \"127.0.0.1:" +
            std::to_string(free_port()) + "\"\nroles = [\"coordinator\", \"worker\", \"server\", \"data\"]\n");
  process second({std::string(TROUPE_BIN_DIR) + "/trouped", "--cluster", "elsewhere.toml", "--node", "n1"}, folder_);
  EXPECT_EQ(second.wait(5s), 2) << second.log();
  EXPECT_NE(second.log().find("is in use by another daemon, process " + std::to_string(daemon("n1").pid())), std::string::npos)
      << second.log();
  EXPECT_EQ(what(), before);
  daemon("n1").signal(SIGCONT);
  kill_hard("n1");
  start("n1");
}

}  // namespace
}  // namespace troupe::testing_cluster
