// The REPL of a daemon from another process: its answers and commands, its response while all cores
// train, and `troupe repl`.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cluster/processes.hpp"
#include "tests/error_text.hpp"

namespace troupe::testing_cluster {
namespace {

using kind = repl_reply::kind;
using nlohmann::json;

class cluster_repl : public cluster_test {
 protected:
  void SetUp() override { make_cluster(2); }
  json asked(const std::string& node, const std::string& line) { return json::parse(ask(node, line, true).text, nullptr, false); }
};

TEST_F(cluster_repl, a_running_job_can_be_inspected_and_controlled_from_both_nodes) {
  start_all();
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 10));
  EXPECT_EQ(ask("n1", "pause").how, kind::ok);
  ASSERT_TRUE(b->wait_event("paused", 10s));
  const auto status = asked("n1", "status");
  EXPECT_EQ(status["cluster"], "lab");
  EXPECT_EQ(status["nodes_up"], 2);
  EXPECT_GT(status["job"]["step"], 0) << status;
  EXPECT_EQ(asked("n2", "jobs")["jobs"][0]["state"], "paused") << "n2 forwards to n1";
  EXPECT_EQ(ask("n2", "set train.dynamics.lr 0.001").how, kind::ok);
  ASSERT_TRUE(b->wait_event("set", 10s));
  EXPECT_EQ(ask("n2", "resume").how, kind::ok);
  ASSERT_TRUE(b->wait_event("resumed", 10s));
  EXPECT_EQ(ask("n1", "checkpoint").how, kind::ok);
  ASSERT_TRUE(b->wait_event("checkpoint", 10s));
  EXPECT_EQ(ask("n1", "eval").how, kind::ok);
  ASSERT_TRUE(b->wait_event("eval", 10s));
  json nodes;  // counters arrive with the nodes' reports, every 250 ms
  const auto counted = [&] { return nodes.size() == 2 && nodes[0]["tcp_out"] > 1000 && nodes[1]["tcp_out"] > 1000; };
  for (const auto end = clock::now() + 5s; !counted() && clock::now() < end;) nodes = asked("n1", "nodes")["nodes"];
  EXPECT_TRUE(counted()) << nodes;
  for (const auto& n : nodes) {
    EXPECT_EQ(n["state"], "up");
    ASSERT_EQ(n["links"].size(), 1U) << n;
    EXPECT_EQ(n["links"][0]["peer"], n["name"] == "n1" ? "n2" : "n1");
    EXPECT_EQ(n["links"][0]["by"], "shm") << "two daemons of one machine";
    EXPECT_EQ(n["links"][0]["bytes_out"], n["tcp_out"]);
  }
  EXPECT_EQ(ask("n1", "stop").how, kind::ok);
  const auto r = b->join();
  EXPECT_EQ(r.outcome.exit_code(), 0);
  EXPECT_EQ(message_of(r.events.back().event), "stopped");
  EXPECT_EQ(asked("n1", "jobs")["jobs"][0]["state"], "stopped");
}

// A file in place of the coordinator's state folder simulates a full disk; root could write to any
// folder.
TEST_F(cluster_repl, a_failed_store_is_reported_to_the_requesting_and_following_clients) {
  const auto second = path("second");
  std::filesystem::create_directories(second);
  ::setenv("TMPDIR", second.c_str(), 1);
  start_all();
  ::unsetenv("TMPDIR");
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 10));
  const auto saved = ask("n1", "checkpoint");
  EXPECT_EQ(saved.how, kind::ok) << saved.text;
  EXPECT_NE(saved.text.find(path("state/n1")), std::string::npos) << saved.text;
  std::filesystem::remove_all(path("state/n1"));
  write("state/n1", "full");
  for (const char* node : {"n1", "n2"}) {
    const auto failed = ask(node, "checkpoint");
    EXPECT_EQ(failed.how, kind::failed) << failed.text;
    EXPECT_NE(failed.text.find(path("state/n1")), std::string::npos) << failed.text;
    EXPECT_NE(failed.text.find(second + "/troupe-"), std::string::npos) << failed.text;
  }
  const auto stopped = ask("n2", "stop");
  EXPECT_EQ(stopped.how, kind::failed) << stopped.text;
  EXPECT_NE(stopped.text.find("weights"), std::string::npos) << stopped.text;
  EXPECT_NE(stopped.text.find(second + "/troupe-"), std::string::npos) << stopped.text;
  const auto r = b->join();
  EXPECT_EQ(r.outcome.exit_code(), 1) << "the weights are not in the state folder";
  ASSERT_FALSE(r.outcome.messages.empty());
  EXPECT_NE(r.outcome.messages.front().find(second + "/troupe-"), std::string::npos) << r.outcome.messages.front();
  EXPECT_EQ(message_of(r.events.back().event), "stopped");
}

// When the weights arrive, a folder has the name of the client's file.
TEST_F(cluster_repl, weights_that_the_client_cannot_write_are_stored_in_a_second_place) {
  start_all();
  std::filesystem::create_directories(path("w.safetensors/taken"));
  std::filesystem::create_directories(path("second"));
  ::setenv("TMPDIR", path("second").c_str(), 1);
  const auto r = run(tiny_job(), workers(2, 1), path("w.safetensors"));
  ::unsetenv("TMPDIR");
  EXPECT_EQ(r.outcome.exit_code(), 1);
  ASSERT_FALSE(r.outcome.messages.empty());
  const auto& message = r.outcome.messages.front();
  EXPECT_NE(message.find(path("w.safetensors") + ": it is a folder; it is in "), std::string::npos) << message;
  const auto at = message.find(path("second/troupe-"));
  ASSERT_NE(at, std::string::npos) << message;
  EXPECT_TRUE(std::filesystem::exists(message.substr(at, message.find(' ', at) - at))) << message;
}

TEST_F(cluster_repl, the_coordinators_node_lists_the_roles_of_all_nodes) {
  start_all();
  auto b = begin(tiny_job(), endless(workers(2, 2)));
  ASSERT_TRUE(b->wait_event("step", 20s, 50));
  std::set<std::string> nodes, names;
  // The entries of n2 arrive with its next report, every 250 ms.
  for (const auto end = clock::now() + 5s; nodes.size() < 2 && clock::now() < end;) {
    const auto answer = asked("n1", "roles");
    for (const auto& r : answer["roles"]) {
      nodes.insert(r["node"].get<std::string>());
      names.insert(r["name"].get<std::string>());
    }
  }
  EXPECT_EQ(nodes.size(), 2u);
  EXPECT_TRUE(names.contains("coordinator") && names.contains("worker0/conv1") && names.contains("worker1/conv1"));
  EXPECT_EQ(asked("n1", "queues")["command"], "queues");
  EXPECT_EQ(asked("n1", "waits")["command"], "waits");
  EXPECT_EQ(asked("n1", "roles n2")["roles"][0]["node"], "n2");
}

TEST_F(cluster_repl, submit_reads_the_clients_file_and_returns_its_errors) {
  start_all();
  const auto good = write("good.toml", tiny_job());
  const auto bad = write("bad.toml", "[jub]\n");
  EXPECT_EQ(asked("n1", "submit " + good)["job"], 1);
  EXPECT_EQ(asked("n2", "submit " + good)["job"], 2) << "forwarded by n2";
  const auto refused = ask("n1", "submit " + bad);
  EXPECT_EQ(refused.how, kind::usage);
  EXPECT_NE(refused.text.find("bad.toml:1:"), std::string::npos) << refused.text;
  EXPECT_EQ(ask("n1", "submit " + path("none.toml")).how, kind::failed);
  EXPECT_TRUE(daemon("n1").wait_log("job 2 (tiny) is over: done", 30s));
}

// All error messages together would be 13 MB.
TEST_F(cluster_repl, only_the_first_hundred_errors_of_a_file_are_reported) {
  start_all();
  std::string text;
  while (text.size() < 900'000) text += "[[layer]]\n";
  const auto file = write("mistakes.toml", text);
  for (const std::string node : {"n1", "n2"}) {
    const auto refused = ask(node, "submit " + file);
    EXPECT_EQ(refused.how, kind::usage) << refused.text.substr(0, 200);
    EXPECT_EQ(std::count(refused.text.begin(), refused.text.end(), '\n'), 100) << node;
    EXPECT_NE(refused.text.find(" more mistakes"), std::string::npos) << node;
  }
  const auto r = run(text);
  EXPECT_EQ(r.outcome.exit_code(), 2);
  EXPECT_EQ(r.outcome.messages.size(), 101u) << r.outcome.messages.front();
}

// One thread per daemon runs long tasks; two daemons fill the cores of a small machine.
// bench/answers.py measures the speed.
TEST_F(cluster_repl, the_repl_answers_while_all_cores_train) {
  start_all();
  auto heavy = tiny_job();
  heavy.replace(heavy.find("outputs = 16"), 12, "outputs = 8192");
  heavy.replace(heavy.find("outputs = 4"), 11, "outputs = 32");
  heavy.replace(heavy.find("batch = 24"), 10, "batch = 480");
  auto set = endless(workers(2, 1));
  set.emplace_back("train.dynamics.lr=0.0001");  // with the job's own learning rate the loss diverges
  auto b = begin(heavy, set);
  ASSERT_TRUE(b->wait_event("step", 60s));
  const auto connected = connect_repl(coordinator(), true, 5s);
  ASSERT_EQ(test::error_text(connected), "");
  const auto& lines = *connected;
  const auto busy = [&] {
    double sum = 0;
    const auto v = asked("n1", "roles");
    for (const auto& r : v["roles"]) sum += r["busy_s"].get<double>();
    return sum;
  };
  const auto busy_before = busy();
  const auto begun = clock::now();
  std::vector<double> took;
  while (since(begun) < 5s) {
    for (const char* line : {"status", "roles", "queues", "nodes"}) {
      const auto at = clock::now();
      EXPECT_EQ(lines(line, nullptr).how, kind::ok);
      took.push_back(std::chrono::duration<double, std::milli>(clock::now() - at).count());
    }
  }
  const auto cores = (busy() - busy_before) / std::chrono::duration<double>(clock::now() - begun).count();
  std::sort(took.begin(), took.end());
  std::printf("REPL under load: %zu answers, median %.2f ms, p99 %.2f ms, worst %.2f ms; %.2f threads in tasks meanwhile\n",
              took.size(), took[took.size() / 2], took[took.size() * 99 / 100], took.back(), cores);
  EXPECT_GT(cores, 0.5) << "the daemons were not busy";
  b->detach();
}

TEST_F(cluster_repl, other_nodes_report_a_lost_coordinator) {
  start_all();
  kill_hard("n1");
  ASSERT_TRUE(daemon("n2").wait_log("is lost", 10s));
  EXPECT_EQ(ask("n2", "status").how, kind::ok) << "n2 answers from its own state";
  const auto begun = clock::now();
  const auto r = ask("n2", "jobs");
  EXPECT_EQ(r.how, kind::failed);
  EXPECT_NE(r.text.find("n1"), std::string::npos) << r.text;
  EXPECT_LT(since(begun), 10s);
}

// --- the program

TEST_F(cluster_repl, troupe_repl_runs_commands_scripts_and_json) {
  const auto program = std::string(TROUPE_BIN_DIR) + "/troupe";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "the program troupe is not built";
  start_all();
  const auto address = "127.0.0.1:" + std::to_string(control_port("n2"));
  process a({program, "repl", address, "--tls", path("certs"), "-c", "status; help pause"}, folder_);
  EXPECT_EQ(a.wait(20s), 0) << a.log();
  EXPECT_NE(a.out().find("node n2 of cluster lab"), std::string::npos) << a.out();
  EXPECT_NE(a.out().find("boundary"), std::string::npos) << a.out();
  process b({program, "repl", "--cluster", path("cluster.toml"), "--json", "-c", "nodes"}, folder_);
  EXPECT_EQ(b.wait(20s), 0);
  EXPECT_EQ(json::parse(b.out(), nullptr, false)["nodes"].size(), 2u) << b.out();
  process c({program, "repl", "--cluster", path("cluster.toml"), "-c", "satus; nodes"}, folder_);
  EXPECT_EQ(c.wait(20s), 2);
  EXPECT_NE(c.log().find("did you mean 'status'"), std::string::npos) << c.log();
  EXPECT_EQ(c.out(), "") << "the commands stop at the first error";
  process d({program, "repl", "--cluster", path("cluster.toml"), "-c", "pause"}, folder_);
  EXPECT_EQ(d.wait(20s), 1) << "no job runs";
  write("script", "# a remark\nnodes\n\njobs\nquit\nnonsense\n");
  process e({"/bin/sh", "-c", program + " repl --cluster " + path("cluster.toml") + " < " + path("script")}, folder_);
  EXPECT_EQ(e.wait(20s), 0) << e.log();
  EXPECT_NE(e.out().find("no jobs"), std::string::npos) << e.out();
  process f({program, "repl", "127.0.0.1:" + std::to_string(free_port()), "--tls", path("certs"), "-c", "status"}, folder_);
  const auto begun = clock::now();
  EXPECT_EQ(f.wait(20s), 1);
  EXPECT_LT(since(begun), 10s);
  EXPECT_NE(f.log().find("no daemon answers at"), std::string::npos) << f.log();
}

TEST_F(cluster_repl, a_line_over_the_message_limit_is_refused_with_its_size) {
  start_all();
  const auto connected = connect_repl(coordinator(), false, 5s);
  ASSERT_EQ(test::error_text(connected), "");
  const auto& lines = *connected;
  ASSERT_EQ(lines("status", nullptr).how, kind::ok);
  const auto refused = lines("status " + std::string(3 << 20, 'x'), nullptr);
  EXPECT_EQ(refused.how, kind::failed);
  EXPECT_NE(refused.text.find("the message has 31457"), std::string::npos) << refused.text;
  EXPECT_NE(refused.text.find("n1 accepts at most 2097152"), std::string::npos) << refused.text;
  EXPECT_EQ(lines("status", nullptr).how, kind::ok) << "the connection stays open";
  const auto job = run(tiny_job() + "# " + std::string(3 << 20, 'x'));
  EXPECT_EQ(job.outcome.how, cluster_outcome::end::failed);
  ASSERT_FALSE(job.outcome.messages.empty());
  EXPECT_NE(job.outcome.messages.front().find("accepts at most 2097152"), std::string::npos) << job.outcome.messages.front();
}

TEST_F(cluster_repl, a_following_client_prints_key_and_value_when_a_setting_changes) {
  start_all();
  process follower({std::string(TROUPE_BIN_DIR) + "/troupe", "train", write("job.toml", tiny_job()), "--cluster",
                    path("cluster.toml"), "--set", "train.finish.steps=100000000", "--set", "eval.every=0"},
                   folder_);
  ASSERT_TRUE(follower.wait_out("examples/s", 30s)) << follower.log();
  ASSERT_EQ(ask("n1", "set train.dynamics.lr 0.001").how, kind::ok);
  EXPECT_TRUE(follower.wait_out("  set train.dynamics.lr = 0.001\n", 10s)) << follower.out();
  EXPECT_EQ(ask("n1", "stop").how, kind::ok);
  EXPECT_EQ(follower.wait(20s), 0) << follower.log();
}

}  // namespace
}  // namespace troupe::testing_cluster
