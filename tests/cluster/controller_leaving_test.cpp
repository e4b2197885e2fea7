// The cluster controller when connections break, nodes shut down or are missing at the start, and
// commands that arrive meanwhile.
#include "tests/cluster/failing_controller.hpp"

namespace troupe::control {
namespace {

TEST_F(controller_failures, a_lost_connection_between_live_nodes_restarts_the_job_on_them) {
  begin({"n1", "n2", "n3"});
  h_->on("n2", trouble{id_, "n3", "lost the data connection to n3: reset"}, now_, out_);
  EXPECT_EQ(ordered<check_move>(), 0u) << "n3 may have failed, with its other connection closing later";
  now_ += 4s;
  h_->on_tick(now_, out_);
  EXPECT_EQ(ordered<check_move>(), 0u);
  now_ += 2s;
  h_->on_tick(now_, out_);
  ASSERT_EQ(ordered<check_move>(), 1u);
  EXPECT_TRUE(lost_nodes().empty());
  found({"n1", "n2", "n3"}, 40);
  ready({"n1", "n2", "n3"});
  swap_all({"n1", "n2", "n3"});
  EXPECT_EQ(last_said(), "recovered: n2: lost the data connection to n3: reset; all nodes start their roles again");
}

TEST_F(controller_failures, a_lost_connection_to_a_failed_node_counts_as_one_failure) {
  begin({"n1", "n2", "n3"}, 1);
  h_->on("n2", trouble{id_, "n3", "lost the data connection to n3: reset"}, now_, out_);
  dies("n3");
  h_->on("n1", trouble{id_, "n3", "lost the data connection to n3: reset"}, now_, out_);
  found({"n1", "n2"}, 40);
  ready({"n1", "n2"});
  swap_all({"n1", "n2"});
  now_ += 10s;
  h_->on_tick(now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 0u);
  EXPECT_EQ(ordered<check_move>(), 1u);
}

TEST_F(controller_failures, a_job_begins_without_a_node_that_is_missing_or_fails_before_the_start) {
  const std::vector<std::string> all = {"n1", "n2", "n3"};
  for (const bool gathering : {true, false}) {
    SCOPED_TRACE(gathering);
    auto up = all;
    if (gathering) up.pop_back();
    accept(up, all);
    if (gathering) {
      now_ += 9s;
      h_->on_tick(now_, out_);
    } else {
      h_->on("n1", prepared{id_, {}}, now_, out_);
      dies("n3");
    }
    ASSERT_TRUE(asked());
    EXPECT_EQ(asked()->what.text, "text") << "no node has made the plan yet";
    EXPECT_EQ(ordered<begin_job>(), 0u);
    found({"n1", "n2"}, 0);
    if (!gathering) h_->on("n2", prepared{id_, {}}, now_, out_);
    EXPECT_EQ(ordered<begin_job>(), 0u) << "n2 prepared the plan with three nodes";
    ready({"n1", "n2"});
    swap_all({"n1", "n2"});
    EXPECT_EQ(ordered<begin_job>(), 1u);
    const std::string why = gathering ? "no daemon answers as n3, which the plan uses (waited 8 s)" : "node n3 is lost: gone";
    EXPECT_EQ(last_said(), "recovered: " + why + "; continued without n3");
  }
}

TEST_F(controller_failures, a_failing_role_restarts_all_roles_once_and_then_ends_the_job) {
  begin({"n1", "n2", "n3"});
  step(57);
  const role_failure what{"worker1/conv1", "label 9 of 4 classes"};
  const trouble failed{id_, "n2", what.text(), what};
  h_->on("n2", failed, now_, out_);
  ASSERT_TRUE(asked());
  EXPECT_TRUE(lost_nodes().empty()) << "all nodes are connected";
  EXPECT_TRUE(asked()->back->live);
  found({"n1", "n2", "n3"}, 50);
  ready({"n1", "n2", "n3"});
  swap_all({"n1", "n2", "n3"});
  EXPECT_EQ(last_said(), "recovered: node n2: role worker1/conv1: label 9 of 4 classes; all nodes start their roles again");
  EXPECT_EQ(sent<end_job>().size(), 0u);
  h_->on("n2", failed, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 3u) << "the same role fails again";
}

TEST_F(controller_failures, a_failed_shard_recovers_from_a_checkpoint_not_from_live_state) {
  begin({"n1", "n2"});
  h_->on_event({id_, {3, error_event{"role shard0: out of memory", {}, {}, role_failure{"shard0", "out of memory"}}}}, now_, out_);
  ASSERT_TRUE(asked());
  EXPECT_FALSE(asked()->back->live);
}

TEST_F(controller_failures, a_job_that_allows_no_failure_ends_with_the_first_failed_role) {
  begin({"n1", "n2"}, 0);
  h_->on_event({id_, {3, error_event{"role worker0: no such file", {}, {}, role_failure{"worker0", "no such file"}}}}, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 2u);
}

// The next plan continues from the surviving state once all nodes are ready for it.
TEST_F(controller_failures, surviving_state_is_collected_before_the_swap) {
  begin({"n1", "n2", "n3"});
  step(57);
  dies("n3");
  found_live({"n1", "n2"});
  ready({"n1", "n2"});
  ASSERT_EQ(sent_to_job(), (std::vector<std::string>{"surviving_state"}));
  EXPECT_EQ(sent<swap>().size(), 0u);
  h_->on_handover(id_, 56, now_, out_);
  ASSERT_EQ(sent<swap>().size(), 2u);
  EXPECT_EQ(sent<swap>()[0].second.step, 56u);
  swap_all({"n1", "n2"});
  EXPECT_EQ(sent<said>().back().second.values.back(), (std::pair<std::string, double>{"steps_again", 1}));
}

TEST_F(controller_failures, incomplete_or_unreported_state_returns_the_job_to_the_checkpoint) {
  for (const bool silent : {false, true}) {
    out_.clear();
    begin({"n1", "n2", "n3"});
    step(57);
    dies("n3");
    found_live({"n1", "n2"});
    ready({"n1", "n2"});
    const auto first = asked()->plan_generation;
    if (silent)
      h_->on_tick(now_ += 11s, out_);
    else
      h_->on_event({id_, {57, handover_refused_event{"shard0 no longer has version 55"}}}, now_, out_);
    EXPECT_GT(asked()->plan_generation, first);
    EXPECT_FALSE(asked()->back->live);
    found({"n1", "n2"}, 40);
    ready({"n1", "n2"});
    EXPECT_EQ(sent<swap>().size(), 2u);
    swap_all({"n1", "n2"});
    EXPECT_EQ(last_said(), "recovered: node n3 is lost: gone; continued without n3");
  }
}

TEST_F(controller_failures, a_node_that_shuts_down_is_drained_and_added_again_when_it_joins) {
  begin({"n1", "n2", "n3"});
  h_->on("n3", leaving{}, now_, out_);
  ASSERT_TRUE(asked());
  EXPECT_TRUE(asked()->wish.is<drain_command>());
  EXPECT_FALSE(asked()->back);
  h_->on_plan_found({id_, {}, {}, plan({"n1", "n2"}), {"bsp"}, asked()->plan_generation, 0}, now_, out_);
  ready({"n1", "n2"});
  h_->on_handover(id_, 70, now_, out_);
  out_.erase(std::remove_if(out_.begin(), out_.end(), [](const order& o) { return std::holds_alternative<check_move>(o); }),
             out_.end());
  swap_all({"n1", "n2", "n3"});
  EXPECT_EQ(last_said(), "moved: drained n3");
  dies("n3");
  EXPECT_FALSE(asked()) << "the job does not use n3";
  joins("n3");
  ASSERT_TRUE(asked());
  EXPECT_TRUE(asked()->wish.is<add_node_command>());
}

// The connections of a node that leaves close before its end is reported. The restarted node has
// new ones.
TEST_F(controller_failures, a_connection_lost_to_a_drained_node_is_no_failure_after_it_rejoins) {
  begin({"n1", "n2", "n3"});
  h_->on("n3", leaving{}, now_, out_);
  h_->on_plan_found({id_, {}, {}, plan({"n1", "n2"}), {"bsp"}, asked()->plan_generation, 0}, now_, out_);
  ready({"n1", "n2"});
  h_->on_handover(id_, 70, now_, out_);
  h_->on("n2", trouble{id_, "n3", "lost the data connection to n3: peer_closed"}, now_, out_);
  swap_all({"n1", "n2", "n3"});
  dies("n3");
  out_.clear();
  joins("n3");
  ASSERT_TRUE(asked());
  h_->on_plan_found({id_, {}, {}, plan({"n1", "n2", "n3"}), {"bsp"}, asked()->plan_generation, 0}, now_, out_);
  ready({"n1", "n2", "n3"});
  h_->on_handover(id_, 90, now_, out_);
  swap_all({"n1", "n2", "n3"});
  EXPECT_EQ(last_said(), "moved: added n3");
  out_.clear();
  now_ += 6s;
  h_->on_tick(now_, out_);
  EXPECT_FALSE(asked()) << "no connection is missing";
}

TEST_F(controller_failures, a_node_that_cannot_be_drained_stops_the_job_with_a_checkpoint) {
  begin({"n1", "n2"});
  h_->on("n2", leaving{}, now_, out_);
  h_->on_plan_found(
      {id_, "node 'n2' is the last with the role \"server\": it cannot be drained", {}, {}, {}, asked()->plan_generation, 0}, now_,
      out_);
  EXPECT_EQ(sent_to_job(), (std::vector<std::string>{"stop"}));
  h_->on_event({id_, {9, done_event{.how = how_ended::stopped}}}, now_, out_);
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{id_, 0}, now_, out_);
  EXPECT_EQ(last_said(), "preempted: n2 shuts down, and no other node can take its part");
}

TEST_F(controller_failures, a_restored_job_is_given_up_when_its_daemon_ended_three_times_without_a_checkpoint) {
  for (const std::uint32_t begun : {2u, 3u}) {
    out_.clear();
    h_.emplace(cluster_, "n1", std::uint16_t{7});
    journal_content found;
    found.jobs.emplace_back();
    found.jobs[0].number = 4;
    found.jobs[0].begun = begun;
    h_->restore(found, now_, out_);
    EXPECT_EQ(ordered<check_text>(), begun < 3 ? 1u : 0u) << begun;
  }
}

TEST_F(controller_failures, a_job_that_has_not_begun_ends_when_the_coordinators_daemon_shuts_down) {
  const std::vector<std::string> all = {"n1", "n2", "n3"};
  for (const bool gathers : {true, false}) {
    SCOPED_TRACE(gathers);
    auto up = all;
    if (gathers) up.pop_back();
    accept(up, all);
    EXPECT_EQ(sent<prepare>().empty(), gathers);
    h_->drain(now_, out_);
    for (const auto& n : all) h_->on(n, ended{id_, 0, {}}, now_, out_);
    EXPECT_TRUE(h_->drained());
    EXPECT_EQ(last_said(), "preempted: n1 shuts down; the job continues when it runs again");
  }
}

TEST_F(controller_failures, a_stopped_job_ends_as_stopped_when_its_node_shuts_down) {
  begin({"n1", "n2"});
  (void)h_->tell(0, {stop_command{}}, now_, out_);
  h_->drain(now_, out_);
  h_->on_event({id_, {9, done_event{.how = how_ended::stopped}}}, now_, out_);
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{id_, 0}, now_, out_);
  EXPECT_EQ(last_said(), "done: stopped");
}

TEST_F(controller_failures, commands_given_during_a_recovery_reach_the_next_plan) {
  begin({"n1", "n2", "n3"});
  dies("n3");
  (void)h_->tell(0, {pause_command{}}, now_, out_);
  (void)h_->tell(0, {stop_command{}}, now_, out_);
  EXPECT_TRUE(sent_to_job().empty());
  found({"n1", "n2"}, 40);
  ready({"n1", "n2"});
  swap_all({"n1", "n2"});
  ASSERT_FALSE(sent_to_job().empty());
  EXPECT_EQ(sent_to_job().front(), "pause");
  EXPECT_EQ(sent_to_job().back(), "stop");
}

TEST_F(controller_failures, a_job_that_finishes_during_a_recovery_is_done) {
  begin({"n1", "n2", "n3"});
  dies("n3");
  h_->on_event({id_, {100, done_event{}}}, now_, out_);
  found({"n1", "n2"}, 40);
  EXPECT_EQ(sent<revise>().size(), 0u);
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{id_, 0}, now_, out_);
  EXPECT_EQ(last_said(), "done: finished");
}

}  // namespace
}  // namespace troupe::control
