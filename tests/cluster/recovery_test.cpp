// Jobs on real daemons that lose nodes and continue: the final weights equal those of an
// undisturbed run.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "runtime/record/checkpoint.hpp"
#include "tests/cluster/processes.hpp"
#include "tests/environment.hpp"

namespace troupe::testing_cluster {
namespace {

class cluster_recovery : public cluster_test {
 protected:
  static std::vector<std::string> with(std::vector<std::string> set, const std::vector<std::string>& more) {
    set.insert(set.end(), more.begin(), more.end());
    return set;
  }
  static const job_event* first(const run_result& r, const std::string& kind) {
    for (const auto& e : r.events)
      if (name_of(e.event).name == kind) return &e;
    return nullptr;
  }
  static double value(const job_event& e, const std::string& name) {
    for (const auto& [k, v] : flatten(e.event).values)
      if (k == name) return v;
    return -1;
  }
  void expect_done(const run_result& r) {
    ASSERT_FALSE(r.events.empty());
    EXPECT_TRUE(r.events.back().event.is<done_event>()) << message_of(r.events.back().event);
    EXPECT_EQ(r.outcome.exit_code(), 0);
  }
  // Stops a job of `set` that would not end by itself. Its weights are those of a job that loses no
  // node and ends after as many steps. Returns the results of both, the stopped job first.
  std::pair<run_result, run_result> stop_and_compare(background& b, const std::vector<std::string>& set) {
    EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
    auto r = b.join();
    expect_done(r);
    if (HasFatalFailure()) return {r, {}};
    for (const auto& node : names_)  // a job would wait for a missing node
      if (!daemons_.contains(node)) {
        start(node);
        EXPECT_TRUE(joined(node));
      }
    auto unbroken = run(tiny_job(), with(set, {"train.finish.steps=" + std::to_string(r.events.back().event.step)}));
    expect_done(unbroken);
    EXPECT_NE(r.text("weights_sha256"), "");
    EXPECT_EQ(r.text("weights_sha256"), unbroken.text("weights_sha256"));
    return {std::move(r), std::move(unbroken)};
  }
};

TEST_F(cluster_recovery, a_killed_node_is_left_out_and_added_again_with_the_same_weights) {
  make_cluster(4);
  start_all();
  const auto set = with(workers(4, 2), {"eval.every=0"});
  auto b = begin(tiny_job(), endless(with(set, {"checkpoint.every=100"})));
  ASSERT_TRUE(b->wait_event("step", 20s, 250));
  kill_hard("n2");  // a worker and a shard
  ASSERT_TRUE(b->wait_event("recovered", 10s));
  start("n2");
  ASSERT_TRUE(b->wait_event("moved", 20s)) << "the node is added again";
  const auto [r, unbroken] = stop_and_compare(*b, set);
  const auto* e = first(r, "recovered");
  ASSERT_TRUE(e);
  EXPECT_NE(message_of(e->event).find("node n2 is lost"), std::string::npos) << message_of(e->event);
  EXPECT_NE(message_of(e->event).find("continued without n2"), std::string::npos) << message_of(e->event);
  EXPECT_GE(e->event.step, 200u);
  EXPECT_EQ(e->event.step % 100, 0u);
  EXPECT_LT(value(*e, "ms"), 5000);
  std::printf("kill -9: recovered in %.0f ms, %.0f steps repeated\n", value(*e, "ms"), value(*e, "steps_again"));
}

// hogwild: every node has its own array of weights, which is lost with it.
TEST_F(cluster_recovery, a_killed_node_is_added_again_when_every_node_has_a_server_group) {
  make_cluster(3);
  start_all();
  auto b = begin(tiny_job(), endless({"train.sync={mode=\"hogwild\",sync_freq=4}", "train.dynamics={rule=\"sgd\",lr=0.01}",
                                      "topology={worker_groups=3,workers_per_group=1,server_groups=3}"}));
  ASSERT_TRUE(b->wait_event("step", 20s, 50));
  kill_hard("n3");
  ASSERT_TRUE(b->wait_event("recovered", 10s));
  start("n3");
  ASSERT_TRUE(b->wait_event("moved", 20s)) << "the node is added again";
  ASSERT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  const auto r = b->join();
  expect_done(r);
  EXPECT_EQ(r.count("recovered"), 1u);
  EXPECT_NE(message_of(first(r, "moved")->event).find("added n3"), std::string::npos);
}

// One shard, on n1: other nodes have all the weights that the lost worker had.
TEST_F(cluster_recovery, a_lost_worker_costs_at_most_the_step_in_progress) {
  make_cluster(4);
  start_all();
  const auto set = with(workers(4, 1), {"eval.every=100"});
  auto b = begin(tiny_job(), with(endless(set), {"eval.every=100"}));
  ASSERT_TRUE(b->wait_event("step", 20s, 250));
  kill_hard("n3");
  daemons_.erase("n3");
  ASSERT_TRUE(b->wait_event("recovered", 10s));
  ASSERT_TRUE(b->wait_event("step", 20s, 500));
  const auto [r, unbroken] = stop_and_compare(*b, set);
  ASSERT_FALSE(HasFatalFailure());
  const auto last = r.events.back().event.step;  // only the job that ends by itself evaluates it
  const auto evaluations = [&](const run_result& of) {
    return std::count_if(of.events.begin(), of.events.end(),
                         [&](const job_event& e) { return e.event.is<eval_event>() && e.event.step < last; });
  };
  EXPECT_EQ(evaluations(r), evaluations(unbroken));
  EXPECT_EQ(r.count("checkpoint"), unbroken.count("checkpoint")) << "only that of the last step: none was needed to recover";
  const auto* e = first(r, "recovered");
  ASSERT_TRUE(e);
  EXPECT_LE(value(*e, "steps_again"), 1) << "lockstep repeats at most one step";
  EXPECT_GE(e->event.step, 249u);
  std::printf("kill -9 of a worker: recovered in %.0f ms, %.0f steps repeated\n", value(*e, "ms"), value(*e, "steps_again"));
}

// Promise 5: every node has a shard, and another node has its replica.
TEST_F(cluster_recovery, a_lost_shard_continues_from_its_replica_repeating_at_most_one_step) {
  make_cluster(4);
  start_all();
  const auto set = with(workers(4, 4), {"eval.every=0"});
  const auto rounds = from_environment("TROUPE_KILL_ROUNDS", 1);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    auto b = begin(tiny_job(), endless(with(set, {"topology.replicas=2"})));
    std::uint64_t step = 100;
    for (const std::string node : {"n2", "n4", "n3"}) {
      ASSERT_TRUE(b->wait_event("step", 20s, step += 400));
      kill_hard(node);
      start(node);
      ASSERT_TRUE(joined(node));
    }
    ASSERT_TRUE(b->wait_event("step", 20s, step + 100));
    const auto [r, unbroken] = stop_and_compare(*b, with(set, {"topology.replicas=1"}));
    EXPECT_GE(r.count("recovered"), 2u);
    for (const auto& e : r.events)
      if (e.event.is<recovered_event>()) {
        EXPECT_LE(value(e, "steps_again"), 1);
        EXPECT_GT(e.event.step, 100u);
        EXPECT_LT(value(e, "ms"), 5000);
      }
  }
}

TEST_F(cluster_recovery, a_rolling_restart_of_all_nodes_changes_no_bit) {
  make_cluster(4);
  start_all();
  const auto set = with(workers(4, 2), {"eval.every=0"});
  auto b = begin(tiny_job(), endless(set));
  std::uint64_t step = 0;
  for (const std::string node : {"n1", "n2", "n3", "n4"}) {
    ASSERT_TRUE(b->wait_event("step", 60s, step += 100)) << node;
    daemon(node).signal(SIGTERM);
    EXPECT_EQ(daemon(node).wait(25s), 0) << daemon(node).log();
    daemons_.erase(node);
    start(node);
    if (node != "n1") {
      ASSERT_TRUE(joined(node));
    }
  }
  const auto [r, unbroken] = stop_and_compare(*b, set);
  EXPECT_EQ(r.count("preempted"), 1u) << "when the coordinator's daemon shut down";
  EXPECT_EQ(r.count("recovered"), 0u);
}

// The job has 2, 4, 1 and 3 nodes in turn.
TEST_F(cluster_recovery, nodes_that_leave_and_join_during_a_job_change_no_bit) {
  make_cluster(4);
  start_all();
  const auto set = with(workers(4, 1), {"eval.every=0", "job.min_nodes=1"});
  auto b = begin(tiny_job(), endless(set));
  std::uint64_t step = 0;
  const auto go_on = [&] { return b->wait_event("step", 60s, step += 100); };
  const auto leave = [&](const std::string& node) {
    daemon(node).signal(SIGTERM);
    EXPECT_EQ(daemon(node).wait(25s), 0);
    daemons_.erase(node);
  };
  const auto come = [&](const std::string& node) {
    start(node);
    ASSERT_TRUE(daemon("n1").wait_log("added " + node, 20s));
  };
  ASSERT_TRUE(go_on());
  leave("n3"), leave("n4");
  ASSERT_TRUE(go_on());
  come("n3"), come("n4");
  ASSERT_TRUE(go_on());
  leave("n2"), leave("n3"), leave("n4");
  ASSERT_TRUE(go_on());
  come("n2"), come("n4");
  const auto [r, unbroken] = stop_and_compare(*b, set);
  EXPECT_EQ(r.count("recovered"), 0u);
  EXPECT_GE(r.count("moved"), 8u);
}

TEST_F(cluster_recovery, a_job_without_a_checkpoint_restarts_at_step_0_when_a_shard_is_lost) {
  make_cluster(3);
  start_all();
  const auto set = with(workers(3, 3), {"train.finish.steps=300", "eval.every=0"});
  const auto unbroken = run(tiny_job(), set);
  auto b = begin(tiny_job(), set);
  ASSERT_TRUE(b->wait_event("step", 20s, 20));
  kill_hard("n3");
  const auto r = b->join();
  expect_done(r);
  ASSERT_TRUE(first(r, "recovered"));
  EXPECT_EQ(first(r, "recovered")->event.step, 0u);
  EXPECT_EQ(r.text("weights_sha256"), unbroken.text("weights_sha256"));
}

TEST_F(cluster_recovery, a_job_that_began_from_a_file_restarts_from_it_when_a_shard_is_lost) {
  make_cluster(3);
  start_all();
  auto begun = begin(tiny_job(), endless(workers(3, 1)));
  ASSERT_TRUE(begun->wait_event("step", 20s, 20));
  ASSERT_EQ(ask("n1", "checkpoint").how, repl_reply::kind::ok);
  ASSERT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  begun->join();
  std::string file;
  for (const auto& e : std::filesystem::directory_iterator(folder_ / "state" / "n1"))
    if (e.is_directory() && !checkpoint_files(e.path().string()).empty()) file = checkpoint_files(e.path().string()).front();
  ASSERT_FALSE(file.empty());
  const auto kept = path("kept.safetensors");
  std::filesystem::copy_file(file, kept);
  const auto at = load_checkpoint(kept).value().step;
  const auto set = with(workers(3, 3), {"train.finish.steps=" + std::to_string(at + 400), "eval.every=0"});
  const auto unbroken = run_with(cluster_submission::beginning::checkpoint, kept, tiny_job(), set);
  expect_done(unbroken);
  auto b = begin_with(cluster_submission::beginning::checkpoint, kept, tiny_job(), set);
  ASSERT_TRUE(b->wait_event("step", 20s, at + 20));
  kill_hard("n2");
  const auto r = b->join();
  expect_done(r);
  ASSERT_TRUE(first(r, "recovered"));
  EXPECT_EQ(first(r, "recovered")->event.step, at);
  EXPECT_EQ(r.text("weights_sha256"), unbroken.text("weights_sha256"));
}

TEST_F(cluster_recovery, a_stopped_node_is_left_out_and_fenced_when_it_wakes) {
  make_cluster(3);
  start_all();
  const auto set = with(workers(3, 2), {"eval.every=0", "checkpoint.every=100"});
  auto b = begin(tiny_job(), endless(set));
  ASSERT_TRUE(b->wait_event("step", 20s, 120));
  const auto begun = clock::now();
  daemon("n2").signal(SIGSTOP);
  ASSERT_TRUE(b->wait_event("recovered", 15s));
  std::printf("SIGSTOP: recovered after %d ms\n", static_cast<int>(since(begun).count()));
  daemon("n2").signal(SIGCONT);
  ASSERT_TRUE(daemon("n2").wait_log("is lost", 10s));
  stop_and_compare(*b, set);
}

// The coordinator is stopped for longer than the other nodes' timeout. All shards live, so at most
// a few steps are repeated.
TEST_F(cluster_recovery, a_stopped_coordinator_continues_from_surviving_state_when_it_wakes) {
  make_cluster(3);
  start_all();
  auto b = begin(tiny_job(), endless(workers(3, 2)));
  ASSERT_TRUE(b->wait_event("step", 20s, 250));
  daemon("n1").signal(SIGSTOP);
  for (const char* n : {"n2", "n3"}) ASSERT_TRUE(daemon(n).wait_log("the coordinator's daemon n1 is lost", 10s)) << n;
  daemon("n1").signal(SIGCONT);
  ASSERT_TRUE(b->wait_event("recovered", 20s));
  ASSERT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  const auto r = b->join();
  expect_done(r);
  EXPECT_EQ(r.count("recovered"), 1u);
  const auto* e = first(r, "recovered");
  ASSERT_TRUE(e);
  EXPECT_NE(message_of(e->event).find("n1 was suspended for"), std::string::npos) << message_of(e->event);
  EXPECT_GE(e->event.step, 250u) << "without a checkpoint the job would restart at step 0";
  EXPECT_LE(value(*e, "steps_again"), 3);
  std::printf("%s: step %.0f, %.0f ms\n", message_of(e->event).c_str(), static_cast<double>(e->event.step), value(*e, "ms"));
}

TEST_F(cluster_recovery, sigterm_of_a_node_hands_its_state_over_and_the_job_continues) {
  make_cluster(3);
  start_all();
  const auto set = with(workers(3, 3), {"eval.every=0"});
  auto b = begin(tiny_job(), endless(set));
  for (const std::string node : {"n2", "n3"}) {
    ASSERT_TRUE(b->wait_event("step", 20s, node == "n2" ? 50 : 500));
    daemon(node).signal(SIGTERM);
    EXPECT_EQ(daemon(node).wait(25s), 0) << daemon(node).log();
    daemons_.erase(node);
    start(node);
    ASSERT_TRUE(joined(node));
  }
  const auto [r, unbroken] = stop_and_compare(*b, set);
  EXPECT_FALSE(first(r, "recovered")) << "no state was lost";
  EXPECT_GE(r.count("moved"), 3u) << "n2 drained, n2 added, n3 drained";
}

TEST_F(cluster_recovery, a_job_begins_without_a_missing_node_and_adds_it_when_it_joins) {
  make_cluster(3);
  start("n1");
  start("n2");
  ASSERT_TRUE(joined("n2"));
  const auto set = with(workers(3, 3), {"eval.every=0"});
  auto b = begin(tiny_job(), endless(set));
  ASSERT_TRUE(b->wait_event("recovered", 20s));
  start("n3");
  ASSERT_TRUE(b->wait_event("moved", 20s));
  const auto [r, unbroken] = stop_and_compare(*b, set);
  EXPECT_NE(message_of(first(r, "recovered")->event).find("no daemon answers as n3"), std::string::npos);
}

TEST_F(cluster_recovery, a_restarted_coordinator_continues_its_jobs_and_their_clients_follow) {
  make_cluster(3);
  start_all();
  const auto set = with(workers(3, 2), {"train.finish.steps=4000", "eval.every=0"});
  const auto unbroken = run(tiny_job(), set);
  expect_done(unbroken);
  auto b = begin(tiny_job(), with(set, {"checkpoint.every=100"}));
  ASSERT_TRUE(b->wait_event("checkpoint", 20s));
  cluster_submission another;
  another.where = coordinator();
  another.file = "job.toml";
  another.text = tiny_job();
  another.overrides = workers(2, 1);
  another.follow = false;
  ASSERT_EQ(run_all(another).outcome.job & 0xffff, 3u);
  const auto begun = clock::now();
  kill_hard("n1");
  start("n1");
  ASSERT_TRUE(daemon("n1").wait_log("job 2 (tiny) runs", 30s));
  std::printf("kill -9 of the coordinator: training continued after %d ms\n", static_cast<int>(since(begun).count()));
  const auto r = b->join();
  expect_done(r);
  EXPECT_EQ(r.text("weights_sha256"), unbroken.text("weights_sha256"));
  EXPECT_EQ(r.outcome.job & 0xffff, 2u) << "the job keeps its number";
  EXPECT_TRUE(daemon("n1").wait_log("job 3 (tiny) is over: done", 30s)) << "the queued job ran too";
  EXPECT_EQ(run(tiny_job(), workers(2, 1)).outcome.job & 0xffff, 4u) << "job numbers are not reused";
}

TEST_F(cluster_recovery, a_job_is_given_up_after_three_coordinator_deaths_without_progress) {
  make_cluster(2);
  start_all();
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 5));
  for (int life = 0; life < 3; ++life) {
    kill_hard("n1");
    start("n1");
    ASSERT_TRUE(daemon("n1").wait_log(life < 2 ? "job 1 (tiny) runs" : "given up", 30s)) << life;
  }
  const auto r = b->join();
  EXPECT_EQ(r.outcome.exit_code(), 1);
  EXPECT_EQ(run(tiny_job(), workers(2, 1)).outcome.exit_code(), 0);
}

// Nodes die at random steps, some during a recovery, sometimes the coordinator's node.
TEST_F(cluster_recovery, random_node_deaths_do_not_change_the_final_weights) {
  make_cluster(4);
  start_all();
  const auto rounds = from_environment("TROUPE_KILL_ROUNDS", 2);  // three deaths each; more in scripts/nightly
  const auto set = with(workers(4, 2), {"eval.every=0"});
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    std::mt19937_64 r(static_cast<std::uint64_t>(round));
    auto b = begin(tiny_job(), endless(with(set, {"checkpoint.every=" + std::to_string(20 + r() % 200)})));
    std::uint64_t step = 1;
    for (int death = 0; death < 3; ++death) {
      step += r() % 300;
      ASSERT_TRUE(b->wait_event("step", 30s, step)) << death;
      const auto first_to_go = "n" + std::to_string(r() % 5 == 0 ? 1 : 2 + r() % 3);
      const auto second = "n" + std::to_string(2 + r() % 3);
      kill_hard(first_to_go);
      if (r() % 3 == 0 && second != first_to_go) {
        kill_hard(second);
        start(second);
      }
      start(first_to_go);
      ASSERT_TRUE(joined(first_to_go));
    }
    ASSERT_TRUE(b->wait_event("step", 30s, step + 300));
    stop_and_compare(*b, set);
  }
}

}  // namespace
}  // namespace troupe::testing_cluster
