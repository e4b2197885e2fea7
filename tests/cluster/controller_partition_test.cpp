// The cluster controller when nodes of a job cannot reach each other, or one leaves, while a plan
// is made. Fault storms over simulated daemons (tests/recovery) found these cases; each of them
// ended the job before it was fixed.
#include "tests/cluster/failing_controller.hpp"

namespace troupe::control {
namespace {

class controller_partition : public controller_failures {
 protected:
  // A job whose nodes have been asked to make its first plan and have not answered.
  void prepare_on(const std::vector<std::string>& nodes) {
    begin(nodes);
    h_.emplace(cluster_, "n1", std::uint16_t{8});
    for (const char* n : {"n1", "n2", "n3", "n4"}) joins(n);
    h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
    id_ = ordered_in<check_text>(out_).back().job;
    h_->on_checked(id_, plan(nodes), now_, out_);
    out_.clear();
  }
  void pass(std::chrono::milliseconds t) {
    now_ += t;
    h_->on_tick(now_, out_);
  }
  std::size_t asked_so_far() const { return ordered<check_move>(); }
};

TEST_F(controller_partition, node_death_during_the_first_plan_is_one_failure) {
  prepare_on({"n1", "n2", "n3"});
  h_->on("n2", prepared{id_, "no data connection to n3: closed", "n3"}, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 0u) << "the end of n3 itself will be reported";
  pass(100ms);
  EXPECT_EQ(asked_so_far(), 0u);
  dies("n3");
  ASSERT_TRUE(asked());
  EXPECT_EQ(lost_nodes(), std::vector<std::string>{"n3"});
  found({"n1", "n2"}, 0);
  ready({"n1", "n2"});
  swap_all({"n1", "n2"});
  EXPECT_EQ(last_said(), "recovered: node n3 is lost: gone; continued without n3");
}

TEST_F(controller_partition, a_connection_lost_before_the_first_plan_begins_does_not_end_the_job) {
  prepare_on({"n1", "n2", "n3"});
  h_->on("n3", prepared{id_, {}}, now_, out_);
  h_->on("n3", trouble{id_, "n2", "lost the data connection to n2: closed"}, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 0u);
  pass(5100ms);
  ASSERT_TRUE(asked()) << "both nodes are connected, so their roles restart";
  EXPECT_TRUE(lost_nodes().empty());
}

TEST_F(controller_partition, an_error_of_a_node_during_the_first_plan_ends_the_job) {
  prepare_on({"n1", "n2", "n3"});
  h_->on("n2", prepared{id_, "makes another plan of this job"}, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 3u);
}

TEST_F(controller_partition, a_node_failure_reported_by_a_peer_restarts_the_recovery) {
  begin({"n1", "n2", "n3", "n4"});
  dies("n4");
  found({"n1", "n2", "n3"}, 40);
  h_->on("n2", revised{id_, plan_generation(), "no data connection to n3: closed", "n3"}, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 0u);
  EXPECT_EQ(asked_so_far(), 1u);
  dies("n3");
  ASSERT_EQ(asked_so_far(), 2u);
  EXPECT_EQ(lost_nodes(), (std::vector<std::string>{"n3", "n4"}));
}

TEST_F(controller_partition, one_of_two_nodes_that_stay_disconnected_is_left_out_until_it_joins) {
  begin({"n1", "n2", "n3"});
  h_->on("n2", trouble{id_, "n3", "lost the data connection to n3: closed"}, now_, out_);
  pass(5100ms);
  ASSERT_TRUE(asked());
  EXPECT_TRUE(lost_nodes().empty()) << "the first try restarts all roles";
  found({"n1", "n2", "n3"}, 40);
  h_->on("n2", revised{id_, plan_generation(), "no data connection to n3 within 10 s", "n3"}, now_, out_);
  pass(5100ms);
  ASSERT_EQ(asked_so_far(), 2u);
  EXPECT_EQ(lost_nodes(), std::vector<std::string>{"n3"});
  found({"n1", "n2"}, 40);
  out_.erase(std::remove_if(out_.begin(), out_.end(), [](const order& o) { return std::holds_alternative<check_move>(o); }),
             out_.end());
  ready({"n1", "n2"});
  EXPECT_EQ(sent<swap>().size(), 3u) << "n3 is connected and has roles to end";
  swap_all({"n1", "n2", "n3"});
  EXPECT_EQ(
      last_said(),
      "recovered: n2: lost the data connection to n3: closed; n2: no data connection to n3 within 10 s; continued without n3");
  EXPECT_FALSE(asked()) << "n3 has not joined again, so it is not added";
  dies("n3");
  joins("n3");
  ASSERT_TRUE(asked());
  EXPECT_TRUE(asked()->wish.is<add_node_command>());
}

TEST_F(controller_partition, a_node_that_leaves_during_a_recovery_is_not_in_the_next_plan) {
  begin({"n1", "n2", "n3", "n4"});
  dies("n4");
  h_->on("n3", leaving{}, now_, out_);
  found({"n1", "n2", "n3"}, 40);  // planned before the job executor was notified
  ASSERT_EQ(asked_so_far(), 2u);
  EXPECT_EQ(lost_nodes(), (std::vector<std::string>{"n3", "n4"}));
  found({"n1", "n2"}, 40);
  ready({"n1", "n2"});
  swap_all({"n1", "n2", "n3"});
  EXPECT_EQ(last_said(), "recovered: node n4 is lost: gone; node n3 shuts down; continued without n3, n4");
}

TEST_F(controller_partition, a_node_that_leaves_during_the_first_plan_does_not_end_the_job) {
  prepare_on({"n1", "n2", "n3"});
  h_->on("n3", leaving{}, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 0u);
  ASSERT_TRUE(asked());
  EXPECT_EQ(lost_nodes(), std::vector<std::string>{"n3"});
}

}  // namespace
}  // namespace troupe::control
