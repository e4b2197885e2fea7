// What the coordinator's daemon sees of a job that runs: tasks that take too long, and what a loss
// would cost.
#include <algorithm>

#include "tests/cluster/failing_controller.hpp"

namespace troupe::control {
namespace {

class controller_watching : public controller_failures {
 protected:
  // n2 says every second that a role of its own is in one task.
  void computes_for(int seconds) {
    role_entry r;
    r.job = id_;
    r.name = "worker0/conv2";
    r.messages = 5;  // it handles none while it computes
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
    h_->on_event({id_, {"checkpoint", at, {}, {}}, {}}, now_, out_);
    h_->on_stored({id_, "checkpoint", "/kept", "", ""}, now_, out_);
  }
};

TEST_F(controller_watching, a_long_task_is_named_and_no_stall_and_a_job_that_survives_no_loss_ends_with_one_that_never_ends) {
  begin({"n1", "n2"}, 0);
  computes_for(60);
  EXPECT_TRUE(sent<said>().empty());
  computes_for(300);
  ASSERT_EQ(sent<said>().size(), 1u) << "once, and 120 s without a message are no stall";
  const auto alert = sent<said>()[0].second;
  EXPECT_EQ(alert.kind, "alert");
  EXPECT_EQ(alert.text, "the task 'forward' of worker0/conv2 on node n2, packet 3 of step 12, has been running for 60 s");
  for (const auto& text :
       {std::pair<std::string, std::string>("layer", "conv2"), std::pair<std::string, std::string>("where", "n2")})
    EXPECT_EQ(std::count(alert.texts.begin(), alert.texts.end(), text), 1) << text.first;
  computes_for(1500);
  EXPECT_EQ(sent<end_job>().size(), 2u);
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{id_, 100}, now_, out_);
  EXPECT_EQ(last_said(),
            "error: the task 'forward' of worker0/conv2 on node n2, packet 3 of step 12, has been running for 1800 s, and is taken "
            "for hung");
}

// Its thread cannot be taken from it, but the others can do without its node, in this job and in
// those after it.
TEST_F(controller_watching, a_node_with_a_task_that_never_ends_is_done_without_until_the_task_has_ended_or_the_daemon_is_another) {
  begin({"n1", "n2", "n3"});
  computes_for(1860);
  ASSERT_EQ(lost_nodes(), (std::vector<std::string>{"n2"}));
  ASSERT_EQ(sent<end_job>().size(), 1u);
  EXPECT_EQ(sent<end_job>()[0].first, "n2") << "its keeper waits for the task, and systemd's watchdog for that";
  EXPECT_EQ(asked()->back->silent, (std::set<std::string>{"n2"}));
  found_live({"n1", "n3"});
  ready({"n1", "n3"});
  h_->on_handover(id_, 30, now_, out_);
  EXPECT_EQ(sent<swap>().size(), 2u) << "nobody waits for n2";
  swap_all({"n1", "n3"});
  EXPECT_EQ(last_said(),
            "recovered: node n2 is lost: the task 'forward' of worker0/conv2 on node n2, packet 3 of step 12, has been running for "
            "1800 s, and is taken for hung; went on without n2");
  EXPECT_EQ(seen().nodes.at(1).state, "hung");
  EXPECT_EQ(seen().nodes.at(1).node_failures, 1u);
  out_.clear();
  computes_for(100);
  EXPECT_EQ(asked(), nullptr) << "once";
  h_->on("n2", ended{id_, 0}, now_, out_);
  ASSERT_NE(asked(), nullptr);
  EXPECT_EQ(asked()->wish.name, "add-node");
  EXPECT_EQ(asked()->wish.key, "n2");
  EXPECT_EQ(seen().nodes.at(1).state, "up");
}

TEST_F(controller_watching, the_next_job_waits_for_no_node_that_hangs) {
  begin({"n1", "n2", "n3"});
  computes_for(1860);
  out_.clear();
  dies("n2");
  EXPECT_EQ(seen().nodes.at(1).node_failures, 1u) << "one and the same";
  EXPECT_EQ(seen().nodes.at(1).state, "lost");
  joins("n2");
  EXPECT_EQ(seen().nodes.at(1).state, "up");
}

// What a node has said once of a task that runs is no news for ever.
TEST_F(controller_watching, a_task_of_a_node_that_says_nothing_any_more_keeps_no_job_alive) {
  begin({"n1", "n2"});
  computes_for(1);
  for (int i = 0; i < 130; ++i, now_ += 1s) h_->on_tick(now_, out_);
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{id_, 100}, now_, out_);
  EXPECT_NE(last_said().find("no role handled a message"), std::string::npos) << last_said();
}

TEST_F(controller_watching, what_a_loss_costs_now_is_told_for_every_node) {
  costly_ = {"n2"};
  begin({"n1", "n2", "n3"});
  step(40);
  EXPECT_EQ(seen().jobs.at(0).steps_at_risk, 40u) << "nothing is kept";
  keeps(50);
  step(57);
  now_ += 3s;
  const auto v = seen();
  EXPECT_EQ(v.jobs.at(0).steps_at_risk, 7u);
  EXPECT_EQ(v.jobs.at(0).kept, 50u);
  EXPECT_EQ(v.jobs.at(0).kept_seconds, 3);
  EXPECT_EQ(v.nodes.at(0).steps_at_risk, 7u) << "the coordinator's";
  EXPECT_EQ(v.nodes.at(1).steps_at_risk, 7u);
  EXPECT_EQ(v.nodes.at(2).steps_at_risk, 0u) << "the others have all";
  EXPECT_FALSE(v.nodes.at(3).steps_at_risk) << "it has no part";
}

TEST_F(controller_watching, the_rate_of_a_job_is_0_when_it_is_paused) {
  begin({"n1", "n2"});
  h_->on_event({id_, {"step", 7, {{"loss", 1}, {"examples_per_s", 100}}, {}}, {}}, now_, out_);
  EXPECT_EQ(seen().jobs.at(0).examples_per_s, 100);
  h_->on_event({id_, {"paused", 7, {}, {}}, {}}, now_, out_);
  EXPECT_EQ(seen().jobs.at(0).examples_per_s, 0);
}

TEST_F(controller_watching, lives_and_losses_are_counted) {
  begin({"n1", "n2", "n3"});
  EXPECT_EQ(seen().nodes.at(1).lives, 1u);
  dies("n2");
  EXPECT_EQ(seen().nodes.at(1).node_failures, 1u);
  EXPECT_EQ(seen().jobs.at(0).node_failures, 1u);
  EXPECT_EQ(seen().nodes.at(1).note, "job 1 goes on without it");
  joins("n2");
  EXPECT_EQ(seen().nodes.at(1).lives, 2u);
  EXPECT_EQ(seen().nodes.at(1).node_failures, 1u);
}

TEST_F(controller_watching, who_cannot_be_reached_is_named_with_its_grace) {
  begin({"n1", "n2", "n3"});
  h_->on("n2", trouble{id_, "n3", "lost the data connection to n3: reset"}, now_, out_);
  now_ += 2s;
  EXPECT_EQ(seen().nodes.at(2).note, "n2 cannot reach it: lost to job 1 in 3 s");
}

}  // namespace
}  // namespace troupe::control
