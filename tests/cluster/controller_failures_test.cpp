// The cluster controller when nodes of a running job fail and join again.
#include "tests/cluster/failing_controller.hpp"

namespace troupe::control {
namespace {

TEST_F(controller_failures, after_a_node_failure_the_others_resume_from_the_last_checkpoint) {
  begin({"n1", "n2", "n3"});
  step(57);
  h_->on_event({id_, {31, set_event{{"train.dynamics.lr", 0.5}}}}, now_, out_);
  out_.clear();
  now_ += 3s;
  dies("n3");
  ASSERT_TRUE(asked());
  EXPECT_TRUE(asked()->wish.is<lose_command>());
  EXPECT_EQ(lost_nodes(), (std::vector<std::string>{"n3"}));
  ASSERT_TRUE(asked()->back);
  ASSERT_EQ(asked()->back->settings.size(), 1u) << "settings newer than the checkpoint are kept";
  EXPECT_EQ(asked()->back->settings[0].from, 31u);
  EXPECT_DOUBLE_EQ(asked()->back->seconds, 3);
  EXPECT_EQ(sent<end_job>().size(), 0u);
  found({"n1", "n2"}, 40);
  EXPECT_EQ(sent<revise>().size(), 2u) << "nothing is sent to the failed node";
  EXPECT_EQ(sent<revise>()[0].second.without, (std::vector<std::string>{"n3"}));
  ready({"n1", "n2"});
  EXPECT_TRUE(sent_to_job().empty()) << "the old plan has no complete state to hand over";
  ASSERT_EQ(sent<swap>().size(), 2u);
  EXPECT_EQ(sent<swap>()[0].second.step, 40u);
  now_ += 200ms;
  swap_all({"n1", "n2"});
  EXPECT_EQ(ordered<begin_job>(), 1u);
  EXPECT_EQ(last_said(), "recovered: node n3 is lost: gone; continued without n3");
  const auto announced = sent<said>().back().second;
  EXPECT_EQ(announced.step, 40u);
  EXPECT_NEAR(announced.values.at(0).second, 200, 0.1);
  EXPECT_EQ(announced.values.back(), (std::pair<std::string, double>{"steps_again", 17}));
  EXPECT_EQ(announced.texts.at(0), (std::pair<std::string, std::string>{"where", "n3"}));
  repl_view v;
  h_->fill(v, now_);
  EXPECT_EQ(v.jobs.at(0).step, 40u) << "the step after the recovery, not the last reported one";
}

TEST_F(controller_failures, a_node_that_joins_again_is_added_at_the_next_boundary) {
  begin({"n1", "n2", "n3"});
  dies("n3");
  joins("n3");
  EXPECT_EQ(ordered<check_move>(), 1u) << "only one plan change at a time";
  found({"n1", "n2"}, 40);
  ready({"n1", "n2"});
  out_.erase(std::remove_if(out_.begin(), out_.end(), [](const order& o) { return std::holds_alternative<check_move>(o); }),
             out_.end());
  swap_all({"n1", "n2"});
  ASSERT_TRUE(asked());
  ASSERT_TRUE(asked()->wish.is<add_node_command>());
  EXPECT_EQ(asked()->wish.as<add_node_command>()->node, "n3");
  EXPECT_FALSE(asked()->back) << "no node is missing, so the state is handed over";
  h_->on_plan_found({id_, {}, {}, plan({"n1", "n2", "n3"}), {"bsp"}, asked()->plan_generation, 0}, now_, out_);
  ready({"n1", "n2", "n3"});
  EXPECT_EQ(sent_to_job(), (std::vector<std::string>{"handover"}));
  h_->on_handover(id_, 44, now_, out_);
  out_.erase(std::remove_if(out_.begin(), out_.end(), [](const order& o) { return std::holds_alternative<check_move>(o); }),
             out_.end());
  swap_all({"n1", "n2", "n3"});
  EXPECT_EQ(last_said(), "moved: added n3");
  EXPECT_FALSE(asked()) << "the node is not requested again";
}

TEST_F(controller_failures, a_node_that_cannot_be_added_is_tried_once_per_join) {
  begin({"n1", "n2", "n3"});
  continues_without_n3();
  out_.clear();
  joins("n3");
  ASSERT_TRUE(asked());
  const auto plan_generation = asked()->plan_generation;
  out_.clear();
  h_->on_plan_found({id_, "its folder of data is empty", {}, {}, {}, plan_generation, 0}, now_, out_);
  EXPECT_EQ(last_said(), "refused: its folder of data is empty");
  EXPECT_FALSE(asked());
  joins("n3");
  EXPECT_TRUE(asked());
}

TEST_F(controller_failures, consecutive_node_failures_are_one_recovery) {
  begin({"n1", "n2", "n3", "n4"}, 1);
  dies("n3");
  const auto first = asked()->plan_generation;
  dies("n4");
  EXPECT_EQ(lost_nodes(), (std::vector<std::string>{"n3", "n4"}));
  h_->on_plan_found({id_, {}, {}, plan({"n1", "n2", "n4"}), {"bsp"}, first, 40}, now_, out_);
  EXPECT_EQ(sent<revise>().size(), 0u) << "this plan is from before the second failure";
  found({"n1", "n2"}, 40);
  ready({"n1"});
  dies("n2");
  EXPECT_EQ(sent<forget>().size(), 1u) << "n1 makes another plan";
  found({"n1"}, 40);
  ready({"n1"});
  swap_all({"n1"});
  EXPECT_EQ(last_said(),
            "recovered: node n3 is lost: gone; node n4 is lost: gone; node n2 is lost: gone; continued without n2, n3, n4");
  out_.clear();
  EXPECT_EQ(sent<end_job>().size(), 0u);
}

TEST_F(controller_failures, a_node_failure_during_a_swap_is_handled_after_the_swap) {
  begin({"n1", "n2", "n3"});
  dies("n3");
  found({"n1", "n2"}, 40);
  ready({"n1", "n2"});
  dies("n2");
  EXPECT_EQ(ordered<check_move>(), 1u) << "n1 is still swapping plans";
  swap_all({"n1"});
  EXPECT_EQ(ordered<begin_job>(), 0u) << "a plan with a failed node does not begin";
  EXPECT_EQ(ordered<check_move>(), 2u);
  EXPECT_EQ(lost_nodes(), (std::vector<std::string>{"n2", "n3"}));
  found({"n1"}, 40);
  ready({"n1"});
  swap_all({"n1"});
  EXPECT_EQ(ordered<begin_job>(), 1u);
}

// From the swap on the move is part of every later plan.
TEST_F(controller_failures, a_node_failure_refuses_a_pending_move_unless_its_nodes_swap) {
  for (int point = 0; point < 4; ++point) {
    SCOPED_TRACE(point);
    out_.clear();
    begin({"n1", "n2", "n3"});
    (void)h_->tell(0, {move_command{"fc6", "n4"}}, now_, out_);
    if (point > 0)
      h_->on_plan_found({id_, {}, {}, plan({"n1", "n2", "n3", "n4"}), {"bsp"}, asked()->plan_generation, 0}, now_, out_);
    if (point > 1) ready({"n1", "n2", "n3", "n4"});
    if (point > 2) h_->on_handover(id_, 12, now_, out_);
    (void)h_->tell(0, {checkpoint_command{}}, now_, out_);
    dies("n2");
    EXPECT_EQ(last_said(), point == 3 ? "" : "refused: node n2 is lost: gone");
    if (point == 3) swap_all({"n1", "n3", "n4"});
    ASSERT_TRUE(asked()->back);
    EXPECT_EQ(lost_nodes(), (std::vector<std::string>{"n2"}));
    found({"n1", "n3"}, 0);
    ready({"n1", "n3"});
    swap_all({"n1", "n3", "n4"});
    EXPECT_EQ(last_said(), point == 3 ? "moved: moved fc6 to n4" : "recovered: node n2 is lost: gone; continued without n2");
    if (point > 1) {
      EXPECT_EQ(sent_to_job().back(), "checkpoint") << "the command was deferred during the move";
    }
    EXPECT_EQ(sent<end_job>().size(), 0u);
  }
}

TEST_F(controller_failures, a_job_that_cannot_be_planned_again_ends_naming_the_node_failure) {
  begin({"n1", "n2", "n3"});
  dies("n2");
  h_->on_plan_found({id_, "node 'n2' is the last with the role \"server\"", {}, {}, {}, asked()->plan_generation, 0}, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 2u);
  for (const char* n : {"n1", "n3"}) h_->on(n, ended{id_, 0}, now_, out_);
  EXPECT_EQ(last_said(), "error: node n2 is lost: gone; node 'n2' is the last with the role \"server\"");
  EXPECT_EQ(sent<said>().back().second.texts.at(0).second, "n2");
}

TEST_F(controller_failures, a_job_that_allows_no_node_failure_ends_at_the_first) {
  begin({"n1", "n2", "n3"}, 0);
  dies("n2");
  for (const char* n : {"n1", "n3"}) h_->on(n, ended{id_, 0}, now_, out_);
  EXPECT_EQ(last_said(), "error: node n2 is lost: gone");
}

TEST_F(controller_failures, a_fourth_node_failure_within_30_s_ends_the_job_naming_the_first) {
  begin({"n1", "n2", "n3"});
  const auto lose_and_go_on = [&] {
    continues_without_n3();
    joins("n3");
    h_->on_plan_found({id_, {}, {}, plan({"n1", "n2", "n3"}), {"bsp"}, asked()->plan_generation, 0}, now_, out_);
    ready({"n1", "n2", "n3"});
    h_->on_handover(id_, 44, now_, out_);
    swap_all({"n1", "n2", "n3"});
    now_ += 9s;
  };
  for (int i = 0; i < 3; ++i) lose_and_go_on();
  now_ += 10s;  // the first is 37 s ago
  lose_and_go_on();
  EXPECT_EQ(sent<end_job>().size(), 0u);
  h_->on_peer_down("n2", "another reason", now_, out_);
  found({"n1", "n3"}, 40);
  ready({"n1", "n3"});
  swap_all({"n1", "n3"});
  dies("n3");
  EXPECT_EQ(sent<end_job>().size(), 1u);
  h_->on("n1", ended{id_, 0}, now_, out_);
  EXPECT_EQ(last_said(),
            "error: node n3 is lost: gone; job ended: more than 3 node failures within 30 s, the first: node n3 is lost: gone");
}

}  // namespace
}  // namespace troupe::control
