// Waits at a boundary: pauses, evaluation in parallel with training, jobs that one worker ends, and
// requests during other actions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/coordinator/boundary_job.hpp"

namespace troupe {
namespace {

using namespace boundary_test;
using ::testing::ElementsAre;

// --- a pause

TEST(boundary, a_pause_is_reported_once_and_holds) {
  job j;
  j.at(3).f.granted = 5;
  j.b.want_pause(5);
  EXPECT_EQ(j.next(), todo::train);
  EXPECT_FALSE(j.b.paused());
  j.at(5);
  EXPECT_EQ(j.next(), todo::say_paused);
  EXPECT_TRUE(j.b.paused());
  EXPECT_EQ(j.next(), todo::wait);
  j.b.want_pause(5);
  EXPECT_TRUE(j.b.paused()) << "a second request has no effect";
  EXPECT_EQ(j.next(), todo::wait);
  EXPECT_TRUE(j.b.resume());
  EXPECT_FALSE(j.b.resume());
  EXPECT_EQ(j.next(), todo::train);
  EXPECT_EQ(j.end(), 10u);
}

TEST(boundary, resume_before_the_pause_is_reached_cancels_it) {
  job j;
  j.at(3);
  j.b.want_pause(6);
  EXPECT_FALSE(j.b.resume());
  EXPECT_EQ(j.end(), 10u);
}

TEST(boundary, a_paused_job_executes_requests_and_stays_paused) {
  job j;
  j.at(5);
  j.b.want_pause(5);
  EXPECT_EQ(j.next(), todo::say_paused);
  j.b.want_evaluation(5);
  j.b.want_checkpoint(5);
  EXPECT_THAT(j.all(), ElementsAre(todo::evaluate, todo::collect));
  EXPECT_TRUE(j.b.paused());
  j.b.want_stop(5);
  EXPECT_THAT(j.all(), ElementsAre(todo::collect));
  EXPECT_EQ(j.b.why(), purpose::last);
}

TEST(boundary, the_next_plan_of_a_paused_job_begins_paused) {
  job j;
  j.at(5);
  j.b.was_paused(5);
  EXPECT_TRUE(j.b.paused());
  EXPECT_EQ(j.next(), todo::wait) << "the previous plan has reported it";
}

// --- evaluation in parallel with training

TEST(boundary, out_of_lockstep_only_the_end_waits_for_a_round) {
  job j(ssp());
  j.at(12).f.evaluation_due = true;
  EXPECT_EQ(j.next(), todo::evaluate);
  j.f.evaluation_due = false;
  j.f.evaluating = true;
  EXPECT_EQ(j.next(), todo::train);
  j.f.evaluation_due = true;
  EXPECT_EQ(j.next(), todo::train) << "one round at a time";
  j.f.evaluation_due = false;
  j.at(100);
  EXPECT_EQ(j.next(), todo::flush);
  j.flush();
  EXPECT_EQ(j.next(), todo::wait);
  j.f.evaluating = false;
  EXPECT_EQ(j.next(), todo::evaluate) << "that round was not of the final weights";
}

TEST(boundary, a_round_that_is_due_at_the_end_is_made_once) {
  job j(ssp());
  j.at(100).f.evaluation_due = true;
  EXPECT_THAT(j.all(), ElementsAre(todo::flush, todo::evaluate, todo::observe, todo::collect));
}

TEST(boundary, no_interval_round_begins_when_a_condition_ends_the_job) {
  job j(ssp());
  j.at(7).f.evaluation_due = true;
  j.b.want_end();
  EXPECT_THAT(j.all(), ElementsAre(todo::flush, todo::evaluate, todo::observe, todo::collect));
}

TEST(boundary, a_requested_round_begins_after_the_one_in_progress) {
  job j(ssp());
  j.at(12).f.evaluating = true;
  j.b.want_evaluation(12);
  EXPECT_EQ(j.next(), todo::train);
  j.f.evaluating = false;
  j.f.weights_evaluated = true;
  EXPECT_EQ(j.next(), todo::evaluate);
  EXPECT_EQ(j.next(), todo::train) << "once";
}

TEST(boundary, does_not_evaluate_without_test_data_or_a_tester) {
  auto r = hundred_steps();
  r.has_tester = false;
  job j(ssp(), r);
  j.at(12).f.evaluation_due = true;
  j.b.want_evaluation(12);
  EXPECT_EQ(j.next(), todo::train);
  job tight(lockstep(), r);
  tight.at(10);
  EXPECT_EQ(tight.next(), todo::evaluate) << "in lockstep the workers evaluate";
  r.has_tests = false;
  job blind(lockstep(), r);
  EXPECT_EQ(blind.end(), 100u);
  blind.at(100);
  EXPECT_EQ(blind.next(), todo::collect);
}

// --- waits

TEST(boundary, evaluates_the_collected_weights_when_one_worker_ends_the_job) {
  auto r = hundred_steps();
  r.any_worker_ends = true;
  job j(ssp(), r);
  j.at(60).f.max_done = 100;
  j.f.evaluating = true;
  EXPECT_EQ(j.next(), todo::wait) << "for the round in progress";
  j.f.evaluating = false;
  j.f.evaluation_due = true;
  EXPECT_EQ(j.next(), todo::collect) << "without a flush: other workers still train";
  EXPECT_TRUE(j.b.collected(60));
  EXPECT_EQ(j.b.now(), waiting::evaluating_last);
  j.f.evaluating = true;
  EXPECT_EQ(j.next(), todo::wait);
  j.b.want_checkpoint(60);
  EXPECT_EQ(j.next(), todo::wait) << "too late for other requests";
  j.f.evaluating = false;
  EXPECT_EQ(j.next(), todo::write_weights);
}

TEST(boundary, flushed_or_stopped_weights_are_not_evaluated_after_collection) {
  job free(ssp());
  free.at(100);
  free.all();
  EXPECT_FALSE(free.evaluates_last);
  auto r = hundred_steps();
  r.any_worker_ends = true;
  job stopped(ssp(), r);
  stopped.at(60).f.max_done = 100;
  stopped.b.want_stop(60);
  EXPECT_EQ(stopped.next(), todo::collect);
  EXPECT_FALSE(stopped.b.collected(60));
  job checkpoint;
  checkpoint.at(5);
  checkpoint.b.want_checkpoint(5);
  EXPECT_EQ(checkpoint.next(), todo::collect);
  EXPECT_FALSE(checkpoint.b.collected(5));
}

TEST(boundary, waits_while_blocks_are_collected) {
  job j;
  j.at(5);
  j.b.want_checkpoint(5);
  EXPECT_EQ(j.next(), todo::collect);
  j.b.want_checkpoint(5);
  EXPECT_EQ(j.next(), todo::wait);
  j.b.collected(5);
  EXPECT_EQ(j.next(), todo::collect) << "the second request makes another checkpoint";
}

TEST(boundary, the_end_and_a_handover_wait_for_staleness_answers) {
  job j;
  j.at(5).f.observing = true;
  j.b.want_handover(5);
  EXPECT_EQ(j.next(), todo::wait);
  j.b.want_checkpoint(5);
  EXPECT_EQ(j.next(), todo::collect) << "a checkpoint does not wait";
  j.b.collected(5);
  j.f.observing = false;
  EXPECT_EQ(j.next(), todo::collect);
  EXPECT_EQ(j.b.why(), purpose::handover);
  job tight;
  tight.at(100).f.evaluated = tight.f.weights_evaluated = tight.f.observing = true;
  EXPECT_EQ(tight.next(), todo::wait) << "for the request of a user";
  tight.f.observing = false;
  EXPECT_EQ(tight.next(), todo::collect);
  job last(ssp());
  last.at(100).f.weights_evaluated = true;
  EXPECT_EQ(last.next(), todo::flush);
  last.flush();
  EXPECT_EQ(last.next(), todo::observe);
  last.f.observing = true;
  EXPECT_EQ(last.next(), todo::wait);
  last.f.observing = false;
  last.f.observed = true;
  EXPECT_EQ(last.next(), todo::collect);
}

// --- requests during other actions

using wish = void (boundary::*)(std::uint64_t);
const std::vector<std::pair<const char*, wish>> wishes{{"pause", &boundary::want_pause},
                                                       {"stop", &boundary::want_stop},
                                                       {"checkpoint", &boundary::want_checkpoint},
                                                       {"eval", &boundary::want_evaluation},
                                                       {"handover", &boundary::want_handover}};

// A job in state `s`, at step 7.
job in(waiting s) {
  auto r = hundred_steps();
  r.any_worker_ends = s == waiting::evaluating_last;
  job j(ssp(), r);
  j.at(7);
  if (s == waiting::flushing || s == waiting::switching) j.b.want_mode(lockstep(), 7);
  if (s == waiting::collecting) j.b.want_checkpoint(7);
  if (s == waiting::evaluating_last) j.f.max_done = 100;
  for (auto t = j.next(); j.b.now() != s; t = j.next()) {
    if (t == todo::flush) j.flush();
    if (t == todo::collect) j.b.collected(7);
    if (t == todo::wait || t == todo::train) break;
  }
  EXPECT_EQ(j.b.now(), s);
  j.f.evaluating = s == waiting::evaluating_last;
  return j;
}

TEST(boundary, a_request_waits_for_the_action_in_progress) {
  for (auto s : {waiting::flushing, waiting::collecting, waiting::switching, waiting::evaluating_last})
    for (const auto& [name, want] : wishes) {
      auto j = in(s);
      (j.b.*want)(7);
      EXPECT_EQ(j.next(), todo::wait) << name;
      EXPECT_EQ(j.b.now(), s) << name;
      if (s == waiting::evaluating_last) continue;
      if (s == waiting::flushing) j.flush();
      if (s == waiting::collecting) j.b.collected(7);
      if (s == waiting::switching) j.adopt();
      const auto t = j.next();
      EXPECT_TRUE(t != todo::wait && t != todo::train && t != todo::leave) << name << " is lost";
    }
}

TEST(boundary, a_finish_condition_waits_for_the_action_in_progress) {
  auto j = in(waiting::switching);
  j.b.want_end();
  EXPECT_EQ(j.next(), todo::wait);
  j.adopt();
  EXPECT_THAT(j.all(), ElementsAre(todo::evaluate, todo::collect)) << "in the new mode";
  EXPECT_EQ(j.b.why(), purpose::last);
}

TEST(boundary, answers_that_are_not_awaited_have_no_effect) {
  for (auto s : {waiting::flushing, waiting::collecting, waiting::switching, waiting::evaluating_last}) {
    auto j = in(s);
    EXPECT_FALSE(s != waiting::flushing && j.b.flushed(role_id{1}, j.b.flush_round(), 1, 7));
    EXPECT_FALSE(s != waiting::switching && j.b.adopted(role_id{2}, j.b.mode_epoch(), 1));
    EXPECT_EQ(j.b.now(), s);
  }
}

}  // namespace
}  // namespace troupe
