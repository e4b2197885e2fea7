// What the coordinator's daemon writes down of a job that runs, and what its next life makes of it.
#include "tests/cluster/failing_controller.hpp"

namespace troupe::control {
namespace {

class controller_journals : public controller_failures {
 protected:
  void note() {
    for (const auto& l : ordered_in<journal_line>(out_)) lines_ += l.line;
    out_.clear();
  }
  // The next life, when these nodes are there and the job has been read again.
  void dies_and_lives(const std::vector<std::string>& nodes, const std::vector<std::string>& there = {"n1", "n2", "n3", "n4"}) {
    note();
    auto all = read_journal(journal_queued(queued()) + lines_);
    for (auto& u : all.jobs) u.reached = reached_;
    h_.emplace(cluster_, "n1", std::uint16_t{8});
    h_->restore(all, now_, out_);
    for (const auto& c : ordered_in<check_text>(out_)) id_ = c.job;
    for (const auto& n : there) joins(n);
    out_.clear();
    h_->on_checked(id_, plan(nodes), now_, out_);
  }
  unfinished_job queued() const {
    unfinished_job u;
    u.number = number_of(id_);
    u.what = {"job.toml", "text", {}};
    return u;
  }
  void moves(command wish, amendments to, const std::vector<std::string>& nodes) {
    ASSERT_EQ(h_->tell(0, wish, now_, out_), "");
    h_->on_plan_found({id_, {}, std::move(to), plan(nodes), "bsp", asked()->plan_generation, 0}, now_, out_);
    ready(nodes);
    h_->on_handover(id_, 5, now_, out_);
    swap_all({"n1", "n2", "n3"});
  }
  std::vector<event_effect> events() const {
    std::vector<event_effect> told;
    for (const auto& h : ordered_in<followed_event>(out_))
      if (h.what.event.kind == "recovered") told.push_back(h.what.event);
    return told;
  }
  std::string lines_;
  std::uint64_t reached_ = 0;
};

TEST_F(controller_journals, the_mode_that_people_have_switched_to_is_that_of_the_next_life) {
  begin({"n1", "n2"});
  h_->on_event({id_, {"mode", 7, {}, "ssp staleness=3"}, {}}, now_, out_);
  EXPECT_TRUE(std::holds_alternative<journal_line>(out_.front())) << "before anybody is told";
  dies_and_lives({"n1", "n2"});
  EXPECT_EQ(sent<prepare>().size(), 0u);
  ASSERT_NE(asked(), nullptr);
  EXPECT_EQ(asked()->so_far.mode, "ssp");
  EXPECT_EQ(asked()->so_far.mode_options, (std::vector<std::pair<std::string, std::string>>{{"staleness", "3"}}));
  ASSERT_TRUE(asked()->back);
  EXPECT_FALSE(asked()->back->live) << "nobody has anything of it";
}

// Whom people have drained stays away, and who was lost does not; both of them over the next life
// of the coordinator's daemon as well.
TEST_F(controller_journals, who_is_drained_stays_away_and_who_was_lost_is_taken_again) {
  begin({"n1", "n2", "n3"});
  moves({"drain", "n3", 0, {}}, {{}, {"n3"}, {}, {}}, {"n1", "n2"});
  dies("n3");
  dies("n2");
  EXPECT_EQ(asked()->so_far.without, (std::set<std::string>{"n3"}));
  found_live({"n1"});
  ready({"n1"});
  h_->on_handover(id_, 6, now_, out_);
  swap_all({"n1"});
  note();
  joins("n3");
  EXPECT_EQ(asked(), nullptr);
  joins("n2");
  ASSERT_NE(asked(), nullptr);
  EXPECT_EQ(asked()->wish.key, "n2");
  dies_and_lives({"n1", "n2", "n3"});
  ASSERT_NE(asked(), nullptr);
  EXPECT_EQ(asked()->so_far.without, (std::set<std::string>{"n3"}));
}

TEST_F(controller_journals, a_job_that_nobody_has_changed_begins_as_its_file_says) {
  begin({"n1", "n2"});
  dies_and_lives({"n1", "n2"});
  EXPECT_EQ(sent<prepare>().size(), 2u);
  EXPECT_EQ(asked(), nullptr);
}

TEST_F(controller_journals, says_in_recovered_that_there_was_no_checkpoint_and_what_is_kept_when_the_coordinator_restarted) {
  begin({"n1", "n2"});
  h_->on_event({id_, {"mode", 7, {}, "ssp staleness=3"}, {}}, now_, out_);
  dies_and_lives({"n1", "n2"});
  h_->on("client.2", follow{number_of(id_)}, now_, out_);
  ASSERT_NE(asked(), nullptr);
  found({"n1", "n2"}, 0);
  ready({"n1", "n2"});
  swap_all({"n1", "n2"});
  EXPECT_EQ(last_said(),
            "recovered: coordinator n1 restarted and keeps the changes made by set, mode, move, drain and pause; all nodes start "
            "their roles again; there was no checkpoint, so training restarts at step 0");
}

// A daemon that is killed has told of steps that no checkpoint holds.
TEST_F(controller_journals, counts_the_steps_of_the_life_before_that_are_made_again) {
  begin({"n1", "n2"});
  step(294);
  h_->on_event({id_, {"mode", 294, {}, "ssp staleness=3"}, {}}, now_, out_);
  reached_ = 294;
  dies_and_lives({"n1", "n2"});
  ASSERT_NE(asked(), nullptr);
  found({"n1", "n2"}, 0);
  ready({"n1", "n2"});
  swap_all({"n1", "n2"});
  const auto told = events();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].step, 0u);
  EXPECT_EQ(told[0].values.at(1), (std::pair<std::string, double>{"steps_again", 294}));
}

TEST_F(controller_journals, shows_the_result_of_a_job_that_was_over_before_this_life) {
  begin({"n1", "n2"});
  h_->on_event({id_, {"step", 20, {{"loss", 0.25}, {"examples_per_s", 2801}, {"skipped", 2}}, {}}, {}}, now_, out_);
  h_->on_event({id_, {"eval", 20, {{"accuracy", 0.875}}, {}}, {}}, now_, out_);
  h_->on_event({id_, {"done", 20, {}, {}}, {}}, now_, out_);
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{id_, 0, {}}, now_, out_);
  note();
  h_.emplace(cluster_, "n1", std::uint16_t{8});
  h_->restore(read_journal(lines_), now_, out_);
  repl_view v;
  h_->fill(v, now_);
  ASSERT_EQ(v.jobs.size(), 1u);
  EXPECT_EQ(v.jobs[0].state, "done");
  EXPECT_EQ(v.jobs[0].step, 20u);
  EXPECT_EQ(v.jobs[0].loss, 0.25);
  EXPECT_EQ(v.jobs[0].accuracy, 0.875);
  EXPECT_EQ(v.jobs[0].examples_per_s, 2801);
  EXPECT_EQ(v.jobs[0].skipped, 2u);
}

// One that is drained may be gone for good: nobody waits for it.
TEST_F(controller_journals, the_next_life_does_not_wait_for_who_is_drained) {
  begin({"n1", "n2", "n3"});
  moves({"drain", "n3", 0, {}}, {{}, {"n3"}, {}, {}}, {"n1", "n2"});
  dies_and_lives({"n1", "n2", "n3"}, {"n1", "n2"});
  ASSERT_NE(asked(), nullptr);
  EXPECT_EQ(asked()->so_far.without, (std::set<std::string>{"n3"}));
}

}  // namespace
}  // namespace troupe::control
