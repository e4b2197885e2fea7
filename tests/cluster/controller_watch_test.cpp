// What the cluster controller reports about a running job: tasks that take too long, and how many
// steps a node failure would cost.
#include <algorithm>

#include "tests/cluster/failing_controller.hpp"

namespace troupe::control {
namespace {

class controller_watching : public controller_failures {
 protected:
  // n2 reports every second that one of its roles is still in the same task.
  void computes_for(int seconds) {
    role_entry r;
    r.job = id_;
    r.name = "worker0/conv2";
    r.messages = 5;  // does not increase while the role computes
    r.task = {"forward", 7, 12, 3, true, 0.5};
    for (int i = 0; i < seconds; ++i, now_ += 1s) {
      h_->on("n2", report{0, 0, {r}}, now_, out_);
      h_->on_tick(now_, out_);
    }
  }
  repl_view seen() const {
    repl_view v;
    h_->fill(v, now_);
    return v;
  }
  void keeps(std::uint64_t at) {
    h_->on_store_begun(id_);
    h_->on_event({id_, {at, checkpoint_event{}}}, now_, out_);
    h_->on_stored({id_, kept_kind::checkpoint, "/kept", "", ""}, now_, out_);
  }
};

TEST_F(controller_watching, a_hung_task_is_reported_and_ends_a_job_that_allows_no_failure) {
  begin({"n1", "n2"}, 0);
  computes_for(60);
  EXPECT_TRUE(sent<said>().empty());
  computes_for(300);
  ASSERT_EQ(sent<said>().size(), 1u) << "reported once; 120 s without a message are no stall while a task runs";
  const auto alert = sent<said>()[0].second;
  EXPECT_EQ(alert.kind, "slow_task");
  EXPECT_EQ(alert.text, "the task 'forward' of worker0/conv2 on node n2, packet 3 of step 12, has been running for 60 s");
  for (const auto& text :
       {std::pair<std::string, std::string>("layer", "conv2"), std::pair<std::string, std::string>("where", "n2")})
    EXPECT_EQ(std::count(alert.texts.begin(), alert.texts.end(), text), 1) << text.first;
  computes_for(1500);
  EXPECT_EQ(sent<end_job>().size(), 2u);
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{id_, 100}, now_, out_);
  EXPECT_EQ(last_said(),
            "error: the task 'forward' of worker0/conv2 on node n2, packet 3 of step 12, has been running for 1800 s, and is "
            "considered hung");
}

TEST_F(controller_watching, a_role_that_takes_longer_than_its_peers_is_reported_once) {
  begin({"n1", "n2", "n3"});
  for (std::uint64_t step = 0; step < 40; ++step, now_ += 250ms) {
    for (const std::string n : {"1", "2", "3"}) {
      role_entry r;
      r.job = id_;
      r.name = "worker" + n + "/conv2";
      r.step = step;
      r.busy = static_cast<double>(step) * (n == "2" ? 0.25 : 0.05);
      r.messages = step;
      h_->on("n" + n, report{0, 0, {r}}, now_, out_);
    }
    h_->on_tick(now_, out_);
  }
  ASSERT_EQ(sent<said>().size(), 1u);
  const auto alert = sent<said>()[0].second;
  EXPECT_EQ(alert.kind, "straggler");
  EXPECT_EQ(alert.text, "worker2/conv2 at n2 takes 250.0 ms for a step, its 2 peers 50.0 ms: it costs 200.0 ms");
  ASSERT_EQ(seen().jobs.size(), 1u);
  ASSERT_EQ(seen().jobs[0].stragglers.size(), 1u) << "for `status` and the page";
  EXPECT_EQ(seen().jobs[0].stragglers[0].role, "worker2/conv2");
}

// The hung thread cannot be stopped, but this job and later ones can continue without its node.
TEST_F(controller_watching, a_node_with_a_hung_task_is_left_out_until_the_task_ends) {
  begin({"n1", "n2", "n3"});
  computes_for(1860);
  ASSERT_EQ(lost_nodes(), (std::vector<std::string>{"n2"}));
  ASSERT_EQ(sent<end_job>().size(), 1u);
  EXPECT_EQ(sent<end_job>()[0].first, "n2") << "n2's job executor waits for the task, so systemd's watchdog restarts n2";
  EXPECT_EQ(asked()->back->silent, (std::set<std::string>{"n2"}));
  found_live({"n1", "n3"});
  ready({"n1", "n3"});
  h_->on_handover(id_, 30, now_, out_);
  EXPECT_EQ(sent<swap>().size(), 2u) << "the swap does not wait for n2";
  swap_all({"n1", "n3"});
  EXPECT_EQ(last_said(),
            "recovered: node n2 is lost: the task 'forward' of worker0/conv2 on node n2, packet 3 of step 12, has been running for "
            "1800 s, and is considered hung; continued without n2");
  EXPECT_EQ(seen().nodes.at(1).state, "hung");
  EXPECT_EQ(seen().nodes.at(1).node_failures, 1u);
  out_.clear();
  computes_for(100);
  EXPECT_EQ(asked(), nullptr) << "reported once";
  h_->on("n2", ended{id_, 0}, now_, out_);
  ASSERT_NE(asked(), nullptr);
  ASSERT_TRUE(asked()->wish.is<add_node_command>());
  EXPECT_EQ(asked()->wish.as<add_node_command>()->node, "n2");
  EXPECT_EQ(seen().nodes.at(1).state, "up");
}

TEST_F(controller_watching, a_hung_node_that_dies_counts_as_one_failure_and_is_up_after_its_join) {
  begin({"n1", "n2", "n3"});
  computes_for(1860);
  out_.clear();
  dies("n2");
  EXPECT_EQ(seen().nodes.at(1).node_failures, 1u) << "the hang and the death are one failure";
  EXPECT_EQ(seen().nodes.at(1).state, "lost");
  joins("n2");
  EXPECT_EQ(seen().nodes.at(1).state, "up");
}

// A report of a running task expires when the node sends no further reports.
TEST_F(controller_watching, a_task_of_a_silent_node_does_not_prevent_the_stall_error) {
  begin({"n1", "n2"});
  computes_for(1);
  for (int i = 0; i < 130; ++i, now_ += 1s) h_->on_tick(now_, out_);
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{id_, 100}, now_, out_);
  EXPECT_NE(last_said().find("no role handled a message"), std::string::npos) << last_said();
}

TEST_F(controller_watching, steps_at_risk_are_shown_for_every_node) {
  costly_ = {"n2"};
  begin({"n1", "n2", "n3"});
  step(40);
  EXPECT_EQ(seen().jobs.at(0).steps_at_risk, 40u) << "there is no checkpoint";
  keeps(50);
  step(57);
  now_ += 3s;
  const auto v = seen();
  EXPECT_EQ(v.jobs.at(0).steps_at_risk, 7u);
  EXPECT_EQ(v.jobs.at(0).kept, 50u);
  EXPECT_EQ(v.jobs.at(0).kept_seconds, 3);
  EXPECT_EQ(v.nodes.at(0).steps_at_risk, 7u) << "the coordinator's node";
  EXPECT_EQ(v.nodes.at(1).steps_at_risk, 7u);
  EXPECT_EQ(v.nodes.at(2).steps_at_risk, 0u) << "other nodes have copies of its state";
  EXPECT_FALSE(v.nodes.at(3).steps_at_risk) << "the job does not use n4";
}

TEST_F(controller_watching, the_rate_of_a_job_is_0_when_it_is_paused) {
  begin({"n1", "n2"});
  h_->on_event({id_, {7, step_event{.loss = 1, .examples_per_s = 100}}}, now_, out_);
  EXPECT_EQ(seen().jobs.at(0).examples_per_s, 100);
  h_->on_event({id_, {7, paused_event{}}}, now_, out_);
  EXPECT_EQ(seen().jobs.at(0).examples_per_s, 0);
}

TEST_F(controller_watching, starts_and_failures_of_a_node_are_counted) {
  begin({"n1", "n2", "n3"});
  EXPECT_EQ(seen().nodes.at(1).lives, 1u);
  dies("n2");
  EXPECT_EQ(seen().nodes.at(1).node_failures, 1u);
  EXPECT_EQ(seen().jobs.at(0).node_failures, 1u);
  EXPECT_EQ(seen().nodes.at(1).note, "job 1 continues without it");
  joins("n2");
  EXPECT_EQ(seen().nodes.at(1).lives, 2u);
  EXPECT_EQ(seen().nodes.at(1).node_failures, 1u);
}

TEST_F(controller_watching, an_unreachable_node_is_shown_with_the_time_until_it_is_lost) {
  begin({"n1", "n2", "n3"});
  h_->on("n2", trouble{id_, "n3", "lost the data connection to n3: reset"}, now_, out_);
  now_ += 2s;
  EXPECT_EQ(seen().nodes.at(2).note, "n2 cannot reach it: counts as failed for job 1 in 3 s");
}

}  // namespace
}  // namespace troupe::control
