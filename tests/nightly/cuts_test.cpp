// Packet loss between daemons for ten seconds and for a minute, in one and both directions, on
// either plane, in every mode; a link of 20 Mbit/s with tensors of 64 MiB; a process stopped for a
// minute. Short versions: tests/faults/cut_test.cpp and stopped_test.cpp.
#include "tests/faults/cuts.hpp"
#include "tests/faults/stopping.hpp"

namespace troupe::testing_cluster {
namespace {

class nightly_cut : public cut_test {
 protected:
  nightly_cut() : cut_test(TROUPE_BIN_DIR) {}
  // n3 of 3 nodes is cut off. The job continues, and its weights equal those of an undisturbed run.
  void cut_for(millis time, plane p, direction d) {
    SCOPED_TRACE(std::string(name_of(p)) + ", " + name_of(d));
    auto set = workers(3, 1);
    auto b = begin(tiny_job(), endless(set));
    ASSERT_TRUE(b->wait_event("step", 20s, 50));
    cut("n3", {"n1", "n2"}, p, d);
    b->wait_event("recovered", time);
    auto without = since(cut_at_);
    until(time);
    heal();
    if (without >= time) {
      ASSERT_TRUE(b->wait_event("recovered", 30s));
      without = since(cut_at_);
    }
    // If only the data plane is cut, the other nodes wait for the coordinator to report n3 lost,
    // and retry once before they continue without it.
    EXPECT_LE(without, p == plane::data ? 25s : 10s);
    ASSERT_TRUE(b->wait_event("step", 60s, steps_now() + 100));
    std::printf("cut for %d s (%s, %s): continued after %d ms\n", static_cast<int>(time / 1s), name_of(p), name_of(d),
                static_cast<int>(without.count()));
    set.emplace_back("eval.every=0");
    expect_same_weights(*b, tiny_job(), set);
    ASSERT_TRUE(joined("n3"));
  }
  void cut_every_way(millis time) {
    make_nodes(3);
    if (IsSkipped()) return;
    for (const auto p : {plane::control, plane::data, plane::both})
      for (const auto d : {direction::away, direction::back, direction::both}) cut_for(time, p, d);
  }
};

TEST_F(nightly_cut, a_job_survives_cuts_of_ten_seconds_on_any_plane_and_direction) { cut_every_way(10s); }
TEST_F(nightly_cut, a_job_survives_cuts_of_a_minute_on_any_plane_and_direction) { cut_every_way(60s); }

TEST_F(nightly_cut, a_job_of_every_mode_continues_without_the_node_and_adds_it_again) {
  make_nodes(4);
  if (IsSkipped()) return;
  for (const auto& [mode, more] : modes_for_four_nodes())
    for (const auto p : {plane::both, plane::data}) {
      SCOPED_TRACE(mode + std::string(", ") + name_of(p));
      auto set = more;
      set.insert(set.end(), {"train.finish.steps=100000", "eval.every=0", "checkpoint.every=20"});
      auto b = begin(config_text("lenet_modes.toml"), set);
      ASSERT_TRUE(b->wait_event("checkpoint", 60s));
      cut("n4", {"n1", "n2", "n3"}, p, direction::both);
      EXPECT_TRUE(b->wait_event("recovered", 30s));
      const auto without = since(cut_at_);
      until(10s);
      heal();
      EXPECT_TRUE(b->wait_event("step", 60s, steps_now() + 20));
      std::printf("%s, cut for 10 s (%s): continued after %d ms\n", mode.c_str(), name_of(p), static_cast<int>(without.count()));
      ASSERT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
      EXPECT_EQ(b->join().outcome.exit_code(), 0);
      ASSERT_TRUE(joined("n4"));
    }
}

// A tensor takes half a minute on this link.
TEST_F(nightly_cut, a_link_of_20_mbit_with_tensors_of_64_mib_is_no_node_failure) {
  make_nodes(2);
  if (IsSkipped()) return;
  net_->set_rate("n2", "20mbit");
  auto set = workers(2, 1);
  set.insert(set.end(), {"layer.ip1.outputs=116508", "train.finish.steps=2", "eval.every=0"});
  const auto begun = clock::now();
  const auto r = run(tiny_job(), set);
  EXPECT_EQ(r.outcome.exit_code(), 0) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
  EXPECT_EQ(r.count("recovered") + r.count("moved"), 0u) << "a live node was declared lost";
  std::printf("tensors of 64 MiB over 20 Mbit/s: 2 steps in %d s, no node declared lost\n", static_cast<int>(since(begun) / 1s));
}

class nightly_stopped : public stopping_test {
 protected:
  void SetUp() override {
    make_cluster(4);
    start_all();
  }
};

TEST_F(nightly_stopped, a_member_of_a_lockstep_job_stopped_for_a_minute_costs_little_memory) { stop_a_member({}, 60s); }
TEST_F(nightly_stopped, a_member_of_an_asynchronous_job_stopped_for_a_minute_costs_little) {
  stop_a_member(
      {"train.sync={mode=\"downpour\"}", "train.dynamics.lr=0.001", "topology.worker_groups=4", "topology.workers_per_group=1"},
      60s);
}
TEST_F(nightly_stopped, a_following_client_stopped_for_a_minute_costs_bounded_memory) { stop_a_client(TROUPE_BIN_DIR, 60s); }

}  // namespace
}  // namespace troupe::testing_cluster
