// The coordinator's daemon when nodes of a running job are lost and come back.
#include "tests/cluster/failing_controller.hpp"

namespace troupe::control {
namespace {

TEST_F(controller_failures, the_others_make_a_plan_without_it_and_go_on_from_what_was_kept_last) {
  begin({"n1", "n2", "n3"});
  step(57);
  h_->on_event({id_, {"set", 31, {{"train.dynamics.lr", 0.5}}, {}}, {}}, now_, out_);
  out_.clear();
  now_ += 3s;
  dies("n3");
  ASSERT_TRUE(asked());
  EXPECT_EQ(asked()->wish.name, "lose");
  EXPECT_EQ(lost_nodes(), (std::vector<std::string>{"n3"}));
  ASSERT_TRUE(asked()->back);
  ASSERT_EQ(asked()->back->settings.size(), 1u) << "what a person has set is not lost with the checkpoint's age";
  EXPECT_EQ(asked()->back->settings[0].from, 31u);
  EXPECT_DOUBLE_EQ(asked()->back->seconds, 3);
  EXPECT_EQ(sent<end_job>().size(), 0u);
  found({"n1", "n2"}, 40);
  EXPECT_EQ(sent<revise>().size(), 2u) << "nobody talks to the dead";
  EXPECT_EQ(sent<revise>()[0].second.without, (std::vector<std::string>{"n3"}));
  ready({"n1", "n2"});
  EXPECT_TRUE(sent_to_job().empty()) << "nobody is there to hand over";
  ASSERT_EQ(sent<swap>().size(), 2u);
  EXPECT_EQ(sent<swap>()[0].second.step, 40u);
  now_ += 200ms;
  swap_all({"n1", "n2"});
  EXPECT_EQ(ordered<begin_job>(), 1u);
  EXPECT_EQ(last_said(), "recovered: node n3 is lost: gone; went on without n3");
  const auto told = sent<said>().back().second;
  EXPECT_EQ(told.step, 40u);
  EXPECT_NEAR(told.values.at(0).second, 200, 0.1);
  EXPECT_EQ(told.values.at(1), (std::pair<std::string, double>{"steps_again", 17}));
  EXPECT_EQ(told.texts.at(0), (std::pair<std::string, std::string>{"where", "n3"}));
  repl_view v;
  h_->fill(v, now_);
  EXPECT_EQ(v.jobs.at(0).step, 40u) << "where it is, and not where it was";
}

TEST_F(controller_failures, a_node_that_is_back_is_taken_at_the_next_boundary) {
  begin({"n1", "n2", "n3"});
  dies("n3");
  joins("n3");
  EXPECT_EQ(ordered<check_move>(), 1u) << "one plan after the other";
  found({"n1", "n2"}, 40);
  ready({"n1", "n2"});
  out_.erase(std::remove_if(out_.begin(), out_.end(), [](const order& o) { return std::holds_alternative<check_move>(o); }),
             out_.end());
  swap_all({"n1", "n2"});
  ASSERT_TRUE(asked());
  EXPECT_EQ(asked()->wish.name, "add-node");
  EXPECT_EQ(asked()->wish.key, "n3");
  EXPECT_FALSE(asked()->back) << "nobody is lost: it is handed over";
  h_->on_plan_found({id_, {}, {}, plan({"n1", "n2", "n3"}), "bsp", asked()->plan_generation, 0}, now_, out_);
  ready({"n1", "n2", "n3"});
  EXPECT_EQ(sent_to_job(), (std::vector<std::string>{"handover"}));
  h_->on_handover(id_, 44, now_, out_);
  out_.erase(std::remove_if(out_.begin(), out_.end(), [](const order& o) { return std::holds_alternative<check_move>(o); }),
             out_.end());
  swap_all({"n1", "n2", "n3"});
  EXPECT_EQ(last_said(), "moved: added n3");
  EXPECT_FALSE(asked()) << "it is not asked for again";
}

TEST_F(controller_failures, one_that_cannot_be_taken_again_is_asked_for_once_until_it_joins_anew) {
  begin({"n1", "n2", "n3"});
  dies("n3");
  found({"n1", "n2"}, 40);
  ready({"n1", "n2"});
  swap_all({"n1", "n2"});
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

TEST_F(controller_failures, nodes_lost_one_after_the_other_are_one_interruption) {
  begin({"n1", "n2", "n3", "n4"}, 1);
  dies("n3");
  const auto first = asked()->plan_generation;
  dies("n4");
  EXPECT_EQ(lost_nodes(), (std::vector<std::string>{"n3", "n4"}));
  h_->on_plan_found({id_, {}, {}, plan({"n1", "n2", "n4"}), "bsp", first, 40}, now_, out_);
  EXPECT_EQ(sent<revise>().size(), 0u) << "of before the second";
  found({"n1", "n2"}, 40);
  ready({"n1"});
  dies("n2");
  EXPECT_EQ(sent<forget>().size(), 1u) << "n1 makes another plan";
  found({"n1"}, 40);
  ready({"n1"});
  swap_all({"n1"});
  EXPECT_EQ(last_said(), "recovered: node n3 is lost: gone; went on without n2, n3, n4");
  out_.clear();
  EXPECT_EQ(sent<end_job>().size(), 0u);
}

TEST_F(controller_failures, one_that_is_lost_while_nodes_swap_waits_until_the_others_have) {
  begin({"n1", "n2", "n3"});
  dies("n3");
  found({"n1", "n2"}, 40);
  ready({"n1", "n2"});
  dies("n2");
  EXPECT_EQ(ordered<check_move>(), 1u) << "n1 is between two plans";
  swap_all({"n1"});
  EXPECT_EQ(ordered<begin_job>(), 0u) << "a plan with a dead node is not begun";
  EXPECT_EQ(ordered<check_move>(), 2u);
  EXPECT_EQ(lost_nodes(), (std::vector<std::string>{"n2", "n3"}));
  found({"n1"}, 40);
  ready({"n1"});
  swap_all({"n1"});
  EXPECT_EQ(ordered<begin_job>(), 1u);
}

TEST_F(controller_failures, a_move_that_people_want_is_refused_for_a_loss_at_every_point) {
  for (int point = 0; point < 4; ++point) {
    SCOPED_TRACE(point);
    out_.clear();
    begin({"n1", "n2", "n3"});
    h_->tell(0, {"move", "fc6", 0, {{"node", "n4"}}}, now_, out_);
    if (point > 0) h_->on_plan_found({id_, {}, {}, plan({"n1", "n2", "n3", "n4"}), "bsp", asked()->plan_generation, 0}, now_, out_);
    if (point > 1) ready({"n1", "n2", "n3", "n4"});
    if (point > 2) h_->on_handover(id_, 12, now_, out_);
    h_->tell(0, {"checkpoint", {}, 0, {}}, now_, out_);
    dies("n2");
    EXPECT_EQ(last_said(), "refused: node n2 is lost: gone");
    if (point == 3) swap_all({"n1", "n3", "n4"});
    ASSERT_TRUE(asked()->back);
    EXPECT_EQ(lost_nodes(), (std::vector<std::string>{"n2"}));
    found({"n1", "n3"}, 0);
    ready({"n1", "n3"});
    swap_all({"n1", "n3", "n4"});
    EXPECT_EQ(last_said(), "recovered: node n2 is lost: gone; went on without n2");
    if (point > 1) {
      EXPECT_EQ(sent_to_job().back(), "checkpoint") << "said while nobody could hear it";
    }
    EXPECT_EQ(sent<end_job>().size(), 0u);
  }
}

TEST_F(controller_failures, a_job_that_cannot_go_on_ends_with_the_loss_as_its_reason) {
  begin({"n1", "n2", "n3"});
  dies("n2");
  h_->on_plan_found({id_, "node 'n2' is the last with the role \"server\"", {}, {}, {}, asked()->plan_generation, 0}, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 2u);
  for (const char* n : {"n1", "n3"}) h_->on(n, ended{id_, 0}, now_, out_);
  EXPECT_EQ(last_said(), "error: node n2 is lost: gone; node 'n2' is the last with the role \"server\"");
  EXPECT_EQ(sent<said>().back().second.texts.at(0).second, "n2");
}

TEST_F(controller_failures, no_more_losses_than_the_job_allows) {
  begin({"n1", "n2", "n3"}, 0);
  dies("n2");
  for (const char* n : {"n1", "n3"}) h_->on(n, ended{id_, 0}, now_, out_);
  EXPECT_EQ(last_said(), "error: node n2 is lost: gone");
}

TEST_F(controller_failures, more_than_three_within_thirty_seconds_are_given_up_with_the_first_named) {
  begin({"n1", "n2", "n3"});
  const auto lose_and_go_on = [&] {
    dies("n3");
    found({"n1", "n2"}, 40);
    ready({"n1", "n2"});
    swap_all({"n1", "n2"});
    joins("n3");
    h_->on_plan_found({id_, {}, {}, plan({"n1", "n2", "n3"}), "bsp", asked()->plan_generation, 0}, now_, out_);
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
  EXPECT_EQ(last_said(), "error: node n3 is lost: gone; given up after 3 losses within 30 s, the first: node n3 is lost: gone");
}

}  // namespace
}  // namespace troupe::control
