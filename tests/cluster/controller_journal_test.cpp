// What the cluster controller writes to the journal about a running job, and what it restores from
// it after a restart.
#include "runtime/base/printable.hpp"
#include "tests/cluster/failing_controller.hpp"
#include "tests/error_text.hpp"

namespace troupe::control {
namespace {

class controller_journals : public controller_failures {
 protected:
  void note() {
    for (const auto& l : ordered_in<journal_line>(out_)) lines_ += l.line;
    out_.clear();
  }
  // Restarts the cluster controller from its journal, with these nodes in the job's plan.
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
    ASSERT_EQ(test::error_text(h_->tell(0, wish, now_, out_)), "");
    h_->on_plan_found({id_, {}, std::move(to), plan(nodes), {"bsp"}, asked()->plan_generation, 0}, now_, out_);
    ready(nodes);
    h_->on_handover(id_, 5, now_, out_);
    swap_all({"n1", "n2", "n3"});
  }
  std::vector<event_effect> events() const {
    std::vector<event_effect> announced;
    for (const auto& h : ordered_in<followed_event>(out_))
      if (h.what.event.is<recovered_event>()) announced.push_back(h.what.event);
    return announced;
  }
  std::string lines_;
  std::uint64_t reached_ = 0;
};

TEST_F(controller_journals, a_switched_mode_is_restored_after_a_restart) {
  begin({"n1", "n2"});
  h_->on_event({id_, {7, mode_event{mode_choice::of("ssp staleness=3")}}}, now_, out_);
  EXPECT_TRUE(std::holds_alternative<journal_line>(out_.front())) << "the journal is written before any notification";
  dies_and_lives({"n1", "n2"});
  EXPECT_EQ(sent<prepare>().size(), 0u);
  ASSERT_NE(asked(), nullptr);
  EXPECT_EQ(asked()->so_far.mode, "ssp");
  EXPECT_EQ(asked()->so_far.mode_options, (std::vector<std::pair<std::string, std::string>>{{"staleness", "3"}}));
  ASSERT_TRUE(asked()->back);
  EXPECT_FALSE(asked()->back->live) << "no node holds state of the job";
}

// A drained node stays out of the job and a failed node is added again, both also after a restart
// of the coordinator's daemon.
TEST_F(controller_journals, drained_nodes_stay_out_and_failed_nodes_are_added_after_a_restart) {
  begin({"n1", "n2", "n3"});
  moves({drain_command{"n3"}}, {{}, {"n3"}, {}, {}}, {"n1", "n2"});
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
  EXPECT_EQ(asked()->wish.as<add_node_command>()->node, "n2");
  dies_and_lives({"n1", "n2", "n3"});
  ASSERT_NE(asked(), nullptr);
  EXPECT_EQ(asked()->so_far.without, (std::set<std::string>{"n3"}));
}

TEST_F(controller_journals, an_unchanged_job_begins_from_its_file_after_a_restart) {
  begin({"n1", "n2"});
  dies_and_lives({"n1", "n2"});
  EXPECT_EQ(sent<prepare>().size(), 2u);
  EXPECT_EQ(asked(), nullptr);
}

TEST_F(controller_journals, recovered_event_after_a_restart_states_kept_changes_and_no_checkpoint) {
  begin({"n1", "n2"});
  h_->on_event({id_, {7, mode_event{mode_choice::of("ssp staleness=3")}}}, now_, out_);
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

// A killed daemon may have reported steps that no checkpoint contains.
TEST_F(controller_journals, steps_reported_before_the_restart_count_as_repeated) {
  begin({"n1", "n2"});
  step(294);
  h_->on_event({id_, {294, mode_event{mode_choice::of("ssp staleness=3")}}}, now_, out_);
  reached_ = 294;
  dies_and_lives({"n1", "n2"});
  ASSERT_NE(asked(), nullptr);
  found({"n1", "n2"}, 0);
  ready({"n1", "n2"});
  swap_all({"n1", "n2"});
  const auto announced = events();
  ASSERT_EQ(announced.size(), 1u);
  EXPECT_EQ(announced[0].step, 0u);
  EXPECT_EQ(announced[0].as<recovered_event>()->steps_again, 294u);
}

TEST_F(controller_journals, the_result_of_a_job_that_ended_before_the_restart_is_shown) {
  begin({"n1", "n2"});
  h_->on_event({id_, {20, step_event{.loss = 0.25, .examples_per_s = 2801, .skipped = 2}}}, now_, out_);
  h_->on_event({id_, {20, eval_event{.accuracy = 0.875}}}, now_, out_);
  h_->on_event({id_, {20, done_event{}}}, now_, out_);
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{id_, 0, {}}, now_, out_);
  note();
  h_.emplace(cluster_, "n1", std::uint16_t{8});
  h_->restore(read_journal(lines_), now_, out_);
  repl_view v;
  h_->fill(v, now_);
  ASSERT_EQ(v.jobs.size(), 1u);
  EXPECT_EQ(v.jobs[0].state, job_state::done);
  EXPECT_EQ(v.jobs[0].step, 20u);
  EXPECT_EQ(v.jobs[0].loss, 0.25);
  EXPECT_EQ(v.jobs[0].accuracy, 0.875);
  EXPECT_EQ(v.jobs[0].examples_per_s, 2801);
  EXPECT_EQ(v.jobs[0].skipped, 2u);
}

// The disk of the coordinator's node is full, and the checkpoint is in a second place.
TEST_F(controller_journals, a_checkpoint_in_the_second_place_is_the_one_that_a_restart_uses) {
  const auto stored = [&](const std::string& path, const std::string& error) {
    out_.clear();
    h_->on_store_begun(id_);
    h_->on_event({id_, {20, checkpoint_event{}}}, now_, out_);
    h_->on_stored({id_, kept_kind::checkpoint, path, {}, error}, now_, out_);
  };
  begin({"n1", "n2"});
  const auto before = journal_queued(queued());
  stored("/s/checkpoint-000001-step-20.safetensors", "");
  const auto first = ordered_in<journal_line>(out_).at(0).line;
  stored("/s/checkpoint-000002-step-40.safetensors", "no space left; it is in /tmp/x instead");
  EXPECT_EQ(sent<said>().back().second.kind, "checkpoint_lost");
  ASSERT_EQ(ordered<journal_line>(), 1u);
  const auto found = read_journal(before + first + ordered_in<journal_line>(out_)[0].line);
  ASSERT_EQ(found.jobs.size(), 1u);
  EXPECT_EQ(found.jobs[0].kept, "/s/checkpoint-000002-step-40.safetensors");
  stored("", "no space left; nor in the second place: no space left");
  EXPECT_EQ(ordered<journal_line>(), 0u);
}

TEST_F(controller_journals, texts_that_an_earlier_version_accepted_are_cut_when_it_is_restored) {
  finished_job old;
  old.number = 7, old.name = std::string(900'000, 'n'), old.owner = "a\x1b[2J", old.state = job_state::failed;
  old.last = {7, {3, error_event{std::string(900'000, 'e'), "n1"}}};
  unfinished_job queued_then;
  queued_then.number = 8, queued_then.what = {std::string(4000, 'f'), "text", {}}, queued_then.owner = std::string(900'000, 'o');
  h_.emplace(cluster_, "n1", std::uint16_t{8});
  h_->restore(read_journal(journal_over(old) + journal_queued(queued_then)), now_, out_);
  repl_view v;
  h_->fill(v, now_);
  ASSERT_EQ(v.jobs.size(), 2u);
  for (const auto& j : v.jobs)
    for (const auto& name : {j.name, j.owner}) EXPECT_EQ(test::error_text(check_name(name)), "");
  EXPECT_EQ(v.jobs[0].owner, "a\\x1b[2J");
  EXPECT_EQ(v.jobs[0].message, shortened(std::string(900'000, 'e'), longest_job_error));
}

// A drained node may never come back, so a restart does not wait for it.
TEST_F(controller_journals, a_restart_does_not_wait_for_drained_nodes) {
  begin({"n1", "n2", "n3"});
  moves({drain_command{"n3"}}, {{}, {"n3"}, {}, {}}, {"n1", "n2"});
  dies_and_lives({"n1", "n2", "n3"}, {"n1", "n2"});
  ASSERT_NE(asked(), nullptr);
  EXPECT_EQ(asked()->so_far.without, (std::set<std::string>{"n3"}));
}

}  // namespace
}  // namespace troupe::control
