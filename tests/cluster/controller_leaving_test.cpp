// The coordinator's daemon when connections break, nodes are told to go, or are not there at the
// beginning; and what people say meanwhile.
#include "tests/cluster/failing_controller.hpp"

namespace troupe::control {
namespace {

TEST_F(controller_failures, a_connection_lost_between_two_that_are_there_begins_the_job_anew_on_the_same_nodes) {
  begin({"n1", "n2", "n3"});
  h_->on("n2", trouble{id_, "n3", "lost the data connection to n3: reset"}, now_, out_);
  EXPECT_EQ(ordered<check_move>(), 0u) << "n3 may be dead, and its other connection just lives a little longer";
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
  EXPECT_EQ(last_said(), "recovered: node n3 is lost: n2 lost the data connection to n3: reset; all nodes start their roles again");
}

TEST_F(controller_failures, a_connection_lost_because_its_node_died_is_one_loss) {
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

TEST_F(controller_failures, a_job_whose_node_is_not_there_or_goes_before_it_has_begun_begins_without_it) {
  for (const bool gathering : {true, false}) {
    SCOPED_TRACE(gathering);
    out_.clear();
    h_.emplace(cluster_, "n1", std::uint16_t{7});
    max_.reset();
    for (const char* n : {"n1", "n2"}) joins(n);
    if (!gathering) joins("n3");
    h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
    for (const auto& o : out_)
      if (const auto* c = std::get_if<check_text>(&o)) id_ = c->job;
    h_->on_checked(id_, plan({"n1", "n2", "n3"}), now_, out_);
    if (gathering) {
      now_ += 9s;
      h_->on_tick(now_, out_);
    } else {
      h_->on("n1", prepared{id_, {}}, now_, out_);
      dies("n3");
    }
    ASSERT_TRUE(asked());
    EXPECT_EQ(asked()->what.text, "text") << "nobody has made it yet";
    EXPECT_EQ(ordered<begin_job>(), 0u);
    found({"n1", "n2"}, 0);
    if (!gathering) h_->on("n2", prepared{id_, {}}, now_, out_);
    EXPECT_EQ(ordered<begin_job>(), 0u) << "of the plan with three";
    ready({"n1", "n2"});
    swap_all({"n1", "n2"});
    EXPECT_EQ(ordered<begin_job>(), 1u);
    const std::string why = gathering ? "no daemon answers as n3, which the plan uses (waited 8 s)" : "node n3 is lost: gone";
    EXPECT_EQ(last_said(), "recovered: " + why + "; went on without n3");
  }
}

TEST_F(controller_failures, roles_begin_anew_when_one_fails_and_the_job_ends_when_it_fails_again) {
  begin({"n1", "n2", "n3"});
  step(57);
  const trouble failed{id_, "n2", "role worker1/conv1: label 9 of 4 classes"};
  h_->on("n2", failed, now_, out_);
  ASSERT_TRUE(asked());
  EXPECT_TRUE(lost_nodes().empty()) << "all nodes are there";
  EXPECT_TRUE(asked()->back->live);
  found({"n1", "n2", "n3"}, 50);
  ready({"n1", "n2", "n3"});
  swap_all({"n1", "n2", "n3"});
  EXPECT_EQ(last_said(), "recovered: node n2: role worker1/conv1: label 9 of 4 classes; all nodes start their roles again");
  EXPECT_EQ(sent<end_job>().size(), 0u);
  h_->on("n2", failed, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 3u) << "the reason is still there";
}

TEST_F(controller_failures, what_a_shard_had_is_gone_with_it) {
  begin({"n1", "n2"});
  h_->on_event({id_, {"error", 3, {}, "role shard0: out of memory"}, {}}, now_, out_);
  ASSERT_TRUE(asked());
  EXPECT_FALSE(asked()->back->live);
}

TEST_F(controller_failures, a_job_that_survives_nothing_ends_with_the_first_role_that_fails) {
  begin({"n1", "n2"}, 0);
  h_->on_event({id_, {"error", 3, {}, "role worker0: no such file"}, {}}, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 2u);
}

// The next plan goes on from what the others have, when all are ready for it.
TEST_F(controller_failures, living_nodes_say_what_they_have_before_they_swap) {
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
  EXPECT_EQ(sent<said>().back().second.values.at(1), (std::pair<std::string, double>{"steps_again", 1}));
}

TEST_F(controller_failures, where_they_have_not_all_or_do_not_say_so_the_job_goes_back) {
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
      h_->on_event({id_, {"refused", 57, {{"handover", 1}}, "shard0 has forgotten version 55"}, {}}, now_, out_);
    EXPECT_GT(asked()->plan_generation, first);
    EXPECT_FALSE(asked()->back->live);
    found({"n1", "n2"}, 40);
    ready({"n1", "n2"});
    EXPECT_EQ(sent<swap>().size(), 2u);
    swap_all({"n1", "n2"});
    EXPECT_EQ(last_said(), "recovered: node n3 is lost: gone; went on without n3");
  }
}

TEST_F(controller_failures, a_node_that_shuts_down_is_drained_and_taken_again_when_it_is_back) {
  begin({"n1", "n2", "n3"});
  h_->on("n3", leaving{}, now_, out_);
  ASSERT_TRUE(asked());
  EXPECT_EQ(asked()->wish.name, "drain");
  EXPECT_FALSE(asked()->back);
  h_->on_plan_found({id_, {}, {}, plan({"n1", "n2"}), "bsp", asked()->plan_generation, 0}, now_, out_);
  ready({"n1", "n2"});
  h_->on_handover(id_, 70, now_, out_);
  out_.erase(std::remove_if(out_.begin(), out_.end(), [](const order& o) { return std::holds_alternative<check_move>(o); }),
             out_.end());
  swap_all({"n1", "n2", "n3"});
  EXPECT_EQ(last_said(), "moved: drained n3");
  dies("n3");
  EXPECT_FALSE(asked()) << "the job does not use it";
  joins("n3");
  ASSERT_TRUE(asked());
  EXPECT_EQ(asked()->wish.name, "add-node");
}

// Its connections end before anybody hears that it is gone; its next life has others.
TEST_F(controller_failures, who_lost_the_connection_to_a_node_that_left_does_not_have_it_lost_when_it_is_back) {
  begin({"n1", "n2", "n3"});
  h_->on("n3", leaving{}, now_, out_);
  h_->on_plan_found({id_, {}, {}, plan({"n1", "n2"}), "bsp", asked()->plan_generation, 0}, now_, out_);
  ready({"n1", "n2"});
  h_->on_handover(id_, 70, now_, out_);
  h_->on("n2", trouble{id_, "n3", "lost the data connection to n3: peer_closed"}, now_, out_);
  swap_all({"n1", "n2", "n3"});
  dies("n3");
  out_.clear();
  joins("n3");
  ASSERT_TRUE(asked());
  h_->on_plan_found({id_, {}, {}, plan({"n1", "n2", "n3"}), "bsp", asked()->plan_generation, 0}, now_, out_);
  ready({"n1", "n2", "n3"});
  h_->on_handover(id_, 90, now_, out_);
  swap_all({"n1", "n2", "n3"});
  EXPECT_EQ(last_said(), "moved: added n3");
  out_.clear();
  now_ += 6s;
  h_->on_tick(now_, out_);
  EXPECT_FALSE(asked()) << "nothing is lost";
}

TEST_F(controller_failures, a_node_that_cannot_be_drained_stops_the_job_with_a_checkpoint) {
  begin({"n1", "n2"});
  h_->on("n2", leaving{}, now_, out_);
  h_->on_plan_found(
      {id_, "node 'n2' is the last with the role \"server\": it cannot be drained", {}, {}, {}, asked()->plan_generation, 0}, now_,
      out_);
  EXPECT_EQ(sent_to_job(), (std::vector<std::string>{"stop"}));
  h_->on_event({id_, {"done", 9, {}, "stopped"}, {}}, now_, out_);
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{id_, 0}, now_, out_);
  EXPECT_EQ(last_said(), "preempted: n2 shuts down, and nobody can take its part");
}

TEST_F(controller_failures, what_a_person_has_stopped_is_stopped_whoever_shuts_down) {
  begin({"n1", "n2"});
  h_->tell(0, {"stop", {}, 0, {}}, now_, out_);
  h_->drain(now_, out_);
  h_->on_event({id_, {"done", 9, {}, "stopped"}, {}}, now_, out_);
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{id_, 0}, now_, out_);
  EXPECT_EQ(last_said(), "done: stopped");
}

TEST_F(controller_failures, words_of_people_reach_the_plan_that_goes_on) {
  begin({"n1", "n2", "n3"});
  dies("n3");
  h_->tell(0, {"pause", {}, 0, {}}, now_, out_);
  h_->tell(0, {"stop", {}, 0, {}}, now_, out_);
  EXPECT_TRUE(sent_to_job().empty());
  found({"n1", "n2"}, 40);
  ready({"n1", "n2"});
  swap_all({"n1", "n2"});
  ASSERT_FALSE(sent_to_job().empty());
  EXPECT_EQ(sent_to_job().front(), "pause");
  EXPECT_EQ(sent_to_job().back(), "stop");
}

TEST_F(controller_failures, a_job_that_is_done_in_the_meantime_is_done) {
  begin({"n1", "n2", "n3"});
  dies("n3");
  h_->on_event({id_, {"done", 100, {}, "finished"}, {}}, now_, out_);
  found({"n1", "n2"}, 40);
  EXPECT_EQ(sent<revise>().size(), 0u);
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{id_, 0}, now_, out_);
  EXPECT_EQ(last_said(), "done: finished");
}

}  // namespace
}  // namespace troupe::control
