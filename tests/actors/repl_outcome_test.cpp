// Tests that every command that changes a job reports its outcome: the step at which it took effect
// and what changed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/cluster/view/job_progress.hpp"
#include "tests/actors/repl_fake.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;
using nlohmann::json;

class repl_outcome_test : public testing::Test {
 protected:
  // The job's reaction to the next command; all events but those before it answer the command.
  void reacts(std::vector<event_effect> events, std::size_t before = 0) {
    backend_.on_command = [this, events, before](const command& c) {
      for (std::size_t i = 0; i < events.size(); ++i) {
        note_event(backend_.v.jobs[1], events[i]);
        if (i < before)
          backend_.said.put(2, events[i]);
        else
          backend_.answers(c, events[i]);
      }
    };
  }
  repl_reply run(const std::string& line, bool as_json = false, int polls = 3) {
    std::string all;
    auto r =
        run_line([&](const std::string& l, const std::string*) { return repl_session(backend_, as_json).run(l); }, line, nullptr,
                 [&](const repl_reply& part) { all += (all.empty() ? "" : "\n") + part.text; }, [&] { return polls-- > 0; });
    r.text = all;
    return r;
  }
  std::string text(const std::string& line) { return run(line).text; }
  json object(const std::string& line) { return json::parse(run(line, true).text, nullptr, false); }
  fake_backend backend_;
};

TEST_F(repl_outcome_test, set_reports_old_value_new_value_and_step) {
  reacts({{412, set_event{{"train.dynamics.lr", 0.001}}}});
  EXPECT_EQ(text("set train.dynamics.lr 0.001"), "train.dynamics.lr: 0.01 -> 0.001 from step 412");
  reacts({{500, set_event{{"train.dynamics.lr", 0.0001}}}});
  const auto o = object("set train.dynamics.lr 0.0001");
  EXPECT_EQ(o["event"], "set");
  EXPECT_EQ(o["job"], 2);
  EXPECT_EQ(o["step"], 500);
  EXPECT_EQ(o["key"], "train.dynamics.lr");
  EXPECT_EQ(o["value"], 0.0001);
  EXPECT_EQ(o["before"], 0.001) << "the value of the first command";
}

TEST_F(repl_outcome_test, set_says_which_rate_the_schedule_makes_of_a_new_base) {
  reacts({{412, set_event{{"train.dynamics.lr", 0.001}, 0.00025}}});
  EXPECT_EQ(text("set train.dynamics.lr 0.001"),
            "train.dynamics.lr, the base of the schedule: 0.01 -> 0.001 from step 412; the rate of that step is 0.00025");
  reacts({{413, set_event{{"train.dynamics.lr", 0.001}, 0.001}}});
  EXPECT_EQ(text("set train.dynamics.lr 0.001").find("base"), std::string::npos) << "a fixed schedule";
  reacts({{414, set_event{{"train.dynamics.lr", 0.002}, 0.0005}}});
  EXPECT_EQ(object("set train.dynamics.lr 0.002")["rate"], 0.0005);
}

TEST_F(repl_outcome_test, an_outcome_of_another_client_is_not_taken) {
  reacts({{5, set_event{{"train.dynamics.lr", 0.001}}}, {6, refused_event{"not now"}}}, 2);
  EXPECT_FALSE(run("set train.dynamics.lr 0.001").next.empty()) << "another client has set the same";
  reacts({{6, refused_event{"not now"}}, {7, moved_event{1, "moved conv1 to n2"}}}, 1);
  EXPECT_EQ(run("move conv1 n2").text, "moved conv1 to n2 at step 7 in 1 ms") << "the refusal is of another client";
  for (const char* line : {"pause", "resume", "checkpoint", "eval", "mode bsp", "drain n2", "staleness"}) {
    reacts({{6, paused_event{}},
            {6, resumed_event{}},
            {6, checkpoint_event{}},
            {6, eval_event{}},
            {6, mode_event{}},
            {6, moved_event{}},
            {6, staleness_event{}},
            {6, unchanged_event{}},
            {6, not_told_event{"no"}},
            {6, refused_event{"no"}}},
           10);
    EXPECT_FALSE(run(line).next.empty()) << line;
    reacts({{6, refused_event{"not now"}}});
    const auto r = run(line);
    EXPECT_EQ(r.how, kind::failed) << line;
    EXPECT_EQ(r.text, "not now") << line;
  }
}

TEST_F(repl_outcome_test, a_command_fails_when_the_job_ends_before_it) {
  for (const char* line : {"pause", "resume", "checkpoint", "eval", "mode bsp", "drain n2", "set train.dynamics.lr 1"}) {
    reacts({{6, done_event{}}}, 1);
    EXPECT_EQ(run(line).text, "job 2 ended before it executed the command") << line;
  }
}

TEST_F(repl_outcome_test, a_command_fails_when_the_daemon_was_restarted) {
  const auto r = run("_follow pause 2 0 5 77");
  EXPECT_EQ(r.how, kind::failed);
  EXPECT_NE(r.text.find("the daemon was restarted"), std::string::npos) << r.text;
}

TEST_F(repl_outcome_test, mode_reports_the_mode_before) {
  reacts({{9, mode_event{mode_choice::of("ssp staleness=3")}}});
  EXPECT_EQ(text("mode ssp staleness=3"), "mode: bsp -> ssp staleness=3 from step 9 on");
  reacts({{12, mode_event{mode_choice::of("ssp staleness=5")}}});
  EXPECT_EQ(text("set train.sync.staleness 5"), "mode: ssp staleness=3 -> ssp staleness=5 from step 12 on");
  reacts({{15, mode_event{mode_choice::of("bsp")}}});
  EXPECT_EQ(object("mode bsp")["before"], "ssp staleness=5");
}

TEST_F(repl_outcome_test, pause_and_resume_report_the_step) {
  reacts({{7, paused_event{}}});
  EXPECT_EQ(text("pause"), "job 2 paused at step 7");
  reacts({{7, unchanged_event{}}});
  EXPECT_EQ(text("pause"), "job 2 is paused already, at step 7");
  EXPECT_EQ(object("pause")["state"], "paused");
  reacts({{7, resumed_event{}}});
  const auto o = object("resume");
  EXPECT_EQ(o["event"], "resumed");
  EXPECT_EQ(o["step"], 7);
  EXPECT_EQ(o["job"], 2);
  reacts({{7, unchanged_event{}}});
  EXPECT_EQ(text("resume"), "job 2 is not paused, at step 7");
}

TEST_F(repl_outcome_test, eval_reports_accuracy_loss_and_step) {
  reacts({{40, eval_event{.accuracy = 0.9123, .loss = 0.31}}});
  EXPECT_EQ(text("eval"), "evaluation of step 40: accuracy 0.9123, loss 0.31");
  EXPECT_EQ(object("eval")["accuracy"], 0.9123);
  auto about = std::make_shared<repl_about>(*backend_.v.jobs[1].about);
  about->evaluates = false;
  backend_.v.jobs[1].about = about;
  const auto r = run("eval");
  EXPECT_EQ(r.how, kind::failed);
  EXPECT_EQ(r.text, "job 2 has no test data to evaluate on");
}

TEST_F(repl_outcome_test, checkpoint_and_stop_report_step_and_file) {
  reacts({{50, checkpoint_event{"/runs/7/c.safetensors"}}});
  EXPECT_EQ(text("checkpoint"), "checkpoint of step 50 in /runs/7/c.safetensors");
  reacts({{60, checkpoint_event{"/runs/7/d.safetensors"}}, {60, done_event{.how = how_ended::stopped}}}, 1);
  EXPECT_EQ(text("stop"), "job 2 stopped at step 60, checkpoint in /runs/7/d.safetensors");
  reacts({{59, checkpoint_lost_event{"left out"}},
          {60, checkpoint_event{"/runs/7/d.safetensors"}},
          {60, done_event{.how = how_ended::stopped}}},
         2);
  EXPECT_EQ(run("stop").how, kind::ok) << "the last checkpoint was saved";
  const auto o = object("stop 2");
  EXPECT_EQ(o["state"], "stopped");
  EXPECT_EQ(o["step"], 60);
  EXPECT_EQ(o["file"], "/runs/7/d.safetensors");
}

// `stop` needs a checkpoint only of a job that stops: one that finishes has its weights.
TEST_F(repl_outcome_test, stop_fails_for_a_checkpoint_that_was_not_saved_only_if_the_job_stops) {
  const event_effect lost{59, checkpoint_lost_event{"left out"}};
  reacts({lost, {60, done_event{.how = how_ended::stopped}}}, 1);
  const auto stopped = run("stop");
  EXPECT_EQ(stopped.how, kind::failed);
  EXPECT_EQ(stopped.text, "left out");
  reacts({lost, {60, done_event{.how = how_ended::finished}}}, 1);
  const auto finished = run("stop");
  EXPECT_EQ(finished.how, kind::ok);
  EXPECT_EQ(finished.text, "job 2 done at step 60");
}

TEST_F(repl_outcome_test, kill_reports_the_step_and_that_nothing_was_saved) {
  reacts({{61, error_event{"killed by client"}}});
  EXPECT_EQ(text("kill"), "job 2 killed at step 61, without a checkpoint");
  EXPECT_EQ(object("kill")["event"], "error");
  backend_.v.jobs[1].state = job_state::queued;
  EXPECT_EQ(text("kill 2"), "job 2 removed from the queue, it had not started");
  EXPECT_EQ(object("stop 2")["was"], "queued");
}

TEST_F(repl_outcome_test, a_long_wait_is_announced_once_and_can_be_given_up) {
  const auto r = run("pause", false, 100);
  EXPECT_EQ(r.text, "waiting for job 2 (Ctrl-C ends the waiting, not the command)");
  EXPECT_FALSE(r.next.empty());
  EXPECT_EQ(run("pause", true, 100).text, "") << "JSON has only results";
}

TEST(job_progress, log_of_events_keeps_the_latest_of_each_list) {
  repl_events log;
  for (std::size_t i = 0; i <= repl_events::kept; ++i) log.put(1, {i, step_event{}}), log.put(2, {i, paused_event{}});
  for (std::size_t i = 0; i <= repl_events::kept_histograms; ++i) log.put(3, {i, histogram_event{}});
  for (const auto& [job, kept] : {std::pair{1u, repl_events::kept}, {2u, repl_events::kept}, {3u, repl_events::kept_histograms}}) {
    const auto all = log.after(0, job);
    ASSERT_EQ(all.size(), kept) << job;
    EXPECT_EQ(all.front().what.step, 1u) << job;
    EXPECT_EQ(all.back().what.step, kept) << job;
  }
  EXPECT_EQ(log.after(log.last() - 1, 3).size(), 1u);
  EXPECT_TRUE(log.after(log.last(), 3).empty());
}

TEST(job_progress, of_a_slow_role_is_listed_once_for_each_node) {
  repl_job j;
  note_event(j, {1, straggler_event{"worker0", "n1", 20, 10, ""}});
  note_event(j, {2, straggler_event{"worker0", "n2", 20, 10, ""}});
  note_event(j, {3, straggler_event{"worker1", "n1", 20, 10, ""}});
  note_event(j, {4, straggler_event{"worker0", "n1", 30, 10, ""}});
  ASSERT_EQ(j.stragglers.size(), 3u);
  EXPECT_EQ(j.stragglers.back().step, 4u);
}

TEST(job_progress, events_change_step_rate_mode_and_settings) {
  fake_backend b;
  auto& j = b.v.jobs[1];
  note_event(j, {10, step_event{.loss = 0.5, .lr = 0.02, .examples_per_s = 640, .skipped = 1}});
  EXPECT_EQ(j.step, 10u);
  EXPECT_EQ(j.lr, 0.02);
  EXPECT_EQ(j.skipped, 1u);
  EXPECT_EQ(*seconds_left(j), 90 * 64 / 640.0);
  EXPECT_EQ(*epoch_of(j), 0.2);
  note_event(j, {11, paused_event{}});
  EXPECT_FALSE(seconds_left(j)) << "a paused job makes no progress";
  EXPECT_EQ(j.examples_per_s, 0);
  note_event(j, {11, set_event{{"train.dynamics.decay", 0}}});
  EXPECT_EQ(j.settings.at(0).before, 0.0005);
  EXPECT_EQ(*setting_of(j, "train.dynamics.decay"), 0);
  EXPECT_FALSE(setting_of(j, "train.nothing"));
}

TEST(job_progress, a_recovery_forgets_steps_and_evaluations_that_are_repeated) {
  repl_job j;
  note_event(j, {10, step_event{.loss = 0.5}});
  note_event(j, {10, eval_event{.accuracy = 0.9, .loss = 0.4}});
  note_event(j, {14, step_event{.loss = 0.3}});
  note_event(j, {12, recovered_event{.message = "n2 is lost"}});
  EXPECT_EQ(j.step, 12u);
  EXPECT_EQ(j.evaluated, 10u);
  EXPECT_EQ(j.accuracy, 0.9);
  note_event(j, {11, checkpoint_event{"c"}});
  EXPECT_EQ(j.step, 12u) << "the event is late";
  note_event(j, {4, recovered_event{.message = "n3 is lost"}});
  EXPECT_EQ(j.step, 4u);
  EXPECT_FALSE(j.evaluated) << "the evaluation of step 10 did not happen";
  EXPECT_EQ(j.accuracy, -1);
}

TEST(job_progress, the_memory_of_this_process_is_known) {
  EXPECT_GT(resident_memory(), 1u << 20);
  EXPECT_LT(resident_memory(), 1ull << 40);
}

}  // namespace
}  // namespace troupe
