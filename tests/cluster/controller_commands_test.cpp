// Commands of users in a cluster controller: each gets one outcome, with its id, and the state of
// the job is one value.
#include "tests/cluster/failing_controller.hpp"
#include "tests/error_text.hpp"

namespace troupe::control {
namespace {

class controller_commands : public controller_failures {
 protected:
  void tell(command c, command_id id) {
    c.id = id;
    ASSERT_EQ(test::error_text(h_->tell(0, c, now_, out_)), "");
  }
  void role(event_effect e) { h_->on_event({id_, std::move(e)}, now_, out_); }
  // The events that answer this command.
  std::vector<std::string> outcomes(command_id id) const {
    std::vector<std::string> found;
    for (const auto& f : ordered_in<followed_event>(out_)) {
      const auto& a = f.what.event.answers;
      if (std::find(a.begin(), a.end(), id) != a.end()) found.emplace_back(name_of(f.what.event).name);
    }
    return found;
  }
  std::pair<std::string, std::string> shown() const {
    repl_view v;
    h_->fill(v, now_);
    return {text_of(v.jobs.front().state), text_of(v.jobs.front().doing)};
  }
  using state = std::pair<std::string, std::string>;
  using words = std::vector<std::string>;
};

TEST_F(controller_commands, a_refusal_answers_only_the_command_that_is_refused) {
  begin({"n1", "n2", "n3"});
  tell({drain_command{"n2"}}, 1);
  tell({drain_command{"n3"}}, 2);
  EXPECT_EQ(outcomes(1), words{});
  EXPECT_EQ(outcomes(2), words{"refused"});
  h_->on_plan_found({id_, {}, {}, plan({"n1", "n3"}), {"bsp"}, asked()->plan_generation, 0}, now_, out_);
  ready({"n1", "n3"});
  h_->on_handover(id_, 12, now_, out_);
  swap_all({"n1", "n2", "n3"});
  EXPECT_EQ(outcomes(1), words{"moved"});
  EXPECT_EQ(outcomes(2), words{"refused"});
}

TEST_F(controller_commands, the_next_coordinator_role_is_told_commands_without_an_outcome) {
  begin({"n1", "n2", "n3"});
  tell({pause_command{}}, 1);
  tell({checkpoint_command{}}, 2);
  role({3, checkpoint_event{}, {2}});
  out_.clear();
  dies("n3");
  tell({eval_command{}}, 3);
  EXPECT_EQ(sent_to_job(), words{});
  found({"n1", "n2"}, 0);
  ready({"n1", "n2"});
  swap_all({"n1", "n2"});
  EXPECT_EQ(sent_to_job(), (words{"pause", "eval"})) << "the checkpoint was made";
}

TEST_F(controller_commands, an_outcome_is_given_once) {
  begin({"n1", "n2", "n3"});
  tell({pause_command{}}, 1);
  role({3, paused_event{}, {1}});
  role({3, unchanged_event{}, {1}});
  role({3, refused_event{"late"}, {1}});
  EXPECT_EQ(outcomes(1), words{"paused"});
  EXPECT_EQ(last_said(), "paused: ") << "an answer to no open command is not published";
}

TEST_F(controller_commands, the_last_event_answers_all_open_commands) {
  begin({"n1", "n2", "n3"});
  tell({pause_command{}}, 1);
  tell({stop_command{}}, 2);
  tell({drain_command{"n2"}}, 3);
  role({5, done_event{.how = how_ended::stopped}});
  for (const char* n : {"n1", "n2", "n3"}) h_->on(n, ended{id_}, now_, out_);
  EXPECT_EQ(outcomes(1), words{"done"});
  EXPECT_EQ(outcomes(2), words{"done"});
  EXPECT_EQ(outcomes(3), words{"refused"}) << "the job was ending";
  EXPECT_EQ(shown(), (state{"stopped", ""}));
}

TEST_F(controller_commands, the_state_names_what_the_job_does) {
  begin({"n1", "n2", "n3"});
  EXPECT_EQ(shown(), (state{"running", ""}));
  tell({pause_command{}}, 1);
  EXPECT_EQ(shown(), (state{"running", "pausing"}));
  role({3, paused_event{}, {1}});
  EXPECT_EQ(shown(), (state{"paused", ""}));
  tell({drain_command{"n2"}}, 2);
  EXPECT_EQ(shown(), (state{"paused", "draining"}));
  dies("n3");
  EXPECT_EQ(shown(), (state{"paused", "recovering"}));
  found({"n1", "n2"}, 0);
  ready({"n1", "n2"});
  swap_all({"n1", "n2"});
  EXPECT_EQ(shown(), (state{"paused", ""})) << "the next plan begins paused";
  const auto published = ordered<followed_event>();
  role({3, paused_event{}});
  EXPECT_EQ(ordered<followed_event>(), published) << "the job was paused before";
  tell({stop_command{}}, 3);
  EXPECT_EQ(shown(), (state{"stopping", ""}));
}

}  // namespace
}  // namespace troupe::control
