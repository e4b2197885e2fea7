// Faults that the command `inject` causes in live daemons: their effect on a running job, the
// rights that the command needs, and the end of each fault.
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "runtime/node/pki/authority.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

using kind = repl_reply::kind;

class cluster_inject : public cluster_test {
 protected:
  // `allowed`: whether the cluster file has inject = true.
  void make(int nodes, bool allowed = true) {
    make_cluster(nodes);
    if (!allowed) return;
    std::ifstream in(path("cluster.toml"));
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::string name = "name = \"lab\"\n";
    text.insert(text.find(name) + name.size(), "inject = true\n");
    write("cluster.toml", text);
  }
  static std::vector<std::string> with(std::vector<std::string> set, const std::vector<std::string>& more) {
    set.insert(set.end(), more.begin(), more.end());
    return set;
  }
  void inject(const std::string& changes, const std::string& node = "n1") {
    const auto r = ask(node, "inject " + changes);
    ASSERT_EQ(r.how, kind::ok) << r.text;
    EXPECT_TRUE(r.text.starts_with("injected at n")) << r.text;
  }
  static std::string alert(const run_result& r, const std::string& part) {
    for (const auto& e : r.events)
      if (std::string(name_of(e.event).name) == "alert" && message_of(e.event).find(part) != std::string::npos)
        return message_of(e.event);
    return "none of " + std::to_string(r.count("alert")) + " alerts";
  }
  static void expect_done(const run_result& r, const run_result& unbroken) {
    ASSERT_FALSE(r.events.empty());
    EXPECT_TRUE(r.events.back().event.is<done_event>()) << message_of(r.events.back().event);
    EXPECT_EQ(r.text("weights_sha256"), unbroken.text("weights_sha256"));
  }
  bool writing_checkpoint() const {
    std::error_code ec;
    for (std::filesystem::recursive_directory_iterator at(folder_ / "state" / "n1", ec), end; !ec && at != end; at.increment(ec))
      if (at->path().filename().string().starts_with("checkpoint-") && at->path().extension() == ".tmp") return true;
    return false;
  }
  std::uint64_t newest_step() {
    std::uint64_t step = 0;
    const auto answer = nlohmann::json::parse(ask("n1", "roles", true).text, nullptr, false);
    for (const auto& r : answer["roles"]) step = std::max(step, r["step"].get<std::uint64_t>());
    return step;
  }
  // Runs a job on three nodes to its end, then begins it again.
  std::unique_ptr<background> begin_and_compare(run_result& unbroken, const std::string& steps) {
    const auto set = with(workers(3, 1), {"train.finish.steps=" + steps, "eval.every=0"});
    unbroken = run(tiny_job(), set);
    auto b = begin(tiny_job(), set);
    EXPECT_TRUE(b->wait_event("step", 20s, 100));
    return b;
  }
};

TEST_F(cluster_inject, inject_kill_ends_the_daemon_and_the_job_ends_with_the_same_weights) {
  make(3);
  start_all();
  run_result unbroken;
  auto b = begin_and_compare(unbroken, "3000");
  inject("kill n3");
  EXPECT_EQ(daemon("n3").wait(10s), 128 + SIGKILL);
  EXPECT_NE(daemon("n3").log().find("injected by client: kill"), std::string::npos) << daemon("n3").log();
  EXPECT_TRUE(daemon("n1").wait_log("client injects at n3: kill", 5s)) << daemon("n1").log();
  ASSERT_TRUE(b->wait_event("recovered", 20s));
  const auto r = b->join();
  expect_done(r, unbroken);
  EXPECT_EQ(alert(r, "injects"), "client injects at n3: kill");
}

TEST_F(cluster_inject, a_node_stopped_for_eight_seconds_is_lost_fenced_and_added_again) {
  make(3);
  start_all();
  auto b = begin(tiny_job(), endless(workers(3, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 100));
  inject("stop n3 for 8s", "n2");  // n2 forwards it to n1
  ASSERT_TRUE(b->wait_event("recovered", 20s));
  ASSERT_TRUE(daemon("n3").wait_log("the injected stop is over", 20s)) << daemon("n3").log();
  EXPECT_TRUE(daemon("n3").wait_log("is lost", 20s)) << "n3 is notified that it was lost: " << daemon("n3").log();
  ASSERT_TRUE(b->wait_event("moved", 30s)) << "n3 is added again";
  ASSERT_EQ(ask("n1", "stop").how, kind::ok);
  b->join();
}

TEST_F(cluster_inject, the_process_that_wakes_a_stopped_daemon_holds_no_file_of_it) {
  make(2);
  start_all();
  inject("stop n2 for 60s");
  ASSERT_TRUE(daemon("n2").wait_log("injected by client: stop for 1 min, until 2", 5s)) << daemon("n2").log();
  ASSERT_TRUE(daemon("n1").wait_log("node n2 is lost", 20s));
  kill_hard("n2");
  EXPECT_TRUE(daemon("n2").closed(5s));
  start("n2");  // its state folder is unlocked
  ASSERT_TRUE(joined("n2"));
}

TEST_F(cluster_inject, a_drop_of_two_seconds_is_no_node_failure) {
  make(3);
  start_all();
  run_result unbroken;
  auto b = begin_and_compare(unbroken, "3000");
  inject("drop n3 for 2s");
  ASSERT_TRUE(daemon("n3").wait_log("the injected drop is over", 20s)) << daemon("n3").log();
  const auto r = b->join();
  expect_done(r, unbroken);
  EXPECT_EQ(r.count("recovered"), 0u) << "no node was declared lost";
  EXPECT_NE(alert(r, "injects").find("client injects at n3: drop for 2 s, until 20"), std::string::npos) << alert(r, "injects");
}

// The step in progress takes ten seconds, so the daemon is not drained before.
TEST_F(cluster_inject, a_second_signal_ends_a_draining_daemon_at_once) {
  make(2);
  start_all();
  wait_for_daemon_ = 1s;
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 20));
  inject("delay n2 by 10s for 60s");
  ASSERT_TRUE(daemon("n2").wait_log("the injected delay begins", 10s)) << daemon("n2").log();
  daemon("n1").signal(SIGTERM);
  ASSERT_TRUE(daemon("n1").wait_log("draining: ", 10s)) << daemon("n1").log();
  daemon("n1").signal(SIGTERM);
  EXPECT_FALSE(daemon("n1").wait_log("second signal: exit", 2100ms)) << "signals within two seconds are one request";
  daemon("n1").signal(SIGTERM);
  EXPECT_EQ(daemon("n1").wait(10s), 143);
  EXPECT_NE(daemon("n1").log().find("second signal: exit"), std::string::npos) << daemon("n1").log();
  EXPECT_NE(b->join().outcome.exit_code(), 0);
}

TEST_F(cluster_inject, a_delay_is_announced_as_slow_connections_of_the_node) {
  make(3);
  start_all();
  auto b = begin(tiny_job(), endless(workers(3, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 100));
  inject("delay n2 by 100ms for 5min");
  ASSERT_TRUE(daemon("n1").wait_log("a round trip from and to n2 takes 1", 30s)) << daemon("n1").log();
  ASSERT_EQ(ask("n1", "stop").how, kind::ok);
  const auto r = b->join();
  EXPECT_EQ(alert(r, "round trip").find("a round trip from and to n2 takes 1"), 0u) << alert(r, "round trip");
}

TEST_F(cluster_inject, a_drop_of_eight_seconds_is_a_failure_and_the_node_is_added_again) {
  make(3);
  start_all();
  auto b = begin(tiny_job(), endless(workers(3, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 100));
  inject("drop n3 for 8s");
  ASSERT_TRUE(b->wait_event("recovered", 20s));
  ASSERT_TRUE(daemon("n3").wait_log("the coordinator's daemon n1 is lost", 20s)) << "n3 receives nothing either";
  ASSERT_TRUE(daemon("n3").wait_log("the injected drop is over", 20s));
  ASSERT_TRUE(b->wait_event("moved", 30s)) << "n3 is added again";
  ASSERT_EQ(ask("n1", "stop").how, kind::ok);
  EXPECT_EQ(b->join().outcome.exit_code(), 0);
}

TEST_F(cluster_inject, a_drop_at_the_coordinators_node_changes_no_bit) {
  make(3);
  start_all();
  run_result unbroken;
  auto b = begin_and_compare(unbroken, "3000");
  inject("drop n1 for 2s");
  ASSERT_TRUE(daemon("n1").wait_log("the injected drop is over", 20s)) << daemon("n1").log();
  expect_done(b->join(), unbroken);
}

TEST_F(cluster_inject, a_delay_changes_no_bit) {
  make(3);
  start_all();
  run_result unbroken;
  auto b = begin_and_compare(unbroken, "2000");
  inject("delay n2 by 20ms for 3s");
  ASSERT_TRUE(daemon("n2").wait_log("injected by client: delay by 20 ms for 3 s", 5s)) << daemon("n2").log();
  ASSERT_TRUE(daemon("n2").wait_log("the injected delay is over", 20s)) << daemon("n2").log();
  const auto r = b->join();
  expect_done(r, unbroken);
  EXPECT_EQ(r.count("recovered"), 0u);
}

TEST_F(cluster_inject, training_continues_while_a_slow_disk_writes_a_checkpoint) {
  make(2);
  start_all();
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 20));
  inject("slow-disk n1 by 500ms for 10min");
  ASSERT_TRUE(daemon("n1").wait_log("the injected slow-disk begins", 5s));
  auto saved = std::async(std::launch::async, [&] { return ask("n1", "checkpoint"); });
  const auto begun = clock::now();
  while (!writing_checkpoint() && since(begun) < 20s) {
  }
  ASSERT_TRUE(writing_checkpoint());
  const auto first = newest_step();
  while (writing_checkpoint() && newest_step() < first + 50) {
  }
  EXPECT_TRUE(writing_checkpoint()) << "50 steps ran while the checkpoint was being written";
  EXPECT_EQ(saved.get().how, kind::ok);
  ASSERT_EQ(ask("n1", "stop").how, kind::ok);
  const auto r = b->join();
  EXPECT_EQ(r.outcome.exit_code(), 0);
}

TEST_F(cluster_inject, only_admin_may_inject_and_only_at_nodes_of_the_cluster) {
  make(2);
  for (const auto& [name, role] : {std::pair{"alice", certificate_role::submit}, {"eve", certificate_role::watch}})
    ASSERT_TRUE(add_operator_certificate(folder_ / "certs", name, role));
  start_all();
  for (const std::string node : {"n1", "n2"}) {
    for (const std::string who : {"alice", "eve"}) {
      auto where = address_of(node);
      where.tls_dir = operator_folder(folder_ / "certs", who).string();
      const auto no = ask_at(where, "inject kill n2");
      EXPECT_EQ(no.how, kind::failed);
      EXPECT_NE(no.text.find("not allowed: inject: the certificate of " + who), std::string::npos) << no.text;
    }
    EXPECT_NE(ask(node, "inject kill n3").text.find("there is no node 'n3'"), std::string::npos);
    EXPECT_EQ(ask(node, "inject stop n2 for 11min").how, kind::usage);
  }
  EXPECT_EQ(ask("n1", "nodes").text.find("lost"), std::string::npos);
}

TEST_F(cluster_inject, inject_is_refused_unless_the_cluster_file_allows_it) {
  make(2, false);
  start_all();
  for (const std::string node : {"n1", "n2"}) {
    const auto no = ask(node, "inject kill n2");
    EXPECT_EQ(no.how, kind::failed);
    EXPECT_NE(no.text.find("[cluster] inject = true"), std::string::npos) << no.text;
  }
}

}  // namespace
}  // namespace troupe::testing_cluster
