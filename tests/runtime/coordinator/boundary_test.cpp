// The order of actions at a boundary, for single requests and for all at once; flushes and mode
// switches.
#include "runtime/coordinator/boundary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/coordinator/boundary_job.hpp"

namespace troupe {
namespace {

using namespace boundary_test;
using ::testing::ElementsAre;

// --- the end of training

TEST(boundary, training_runs_to_the_next_evaluation_only_in_lockstep) {
  EXPECT_EQ(job().end(), 10u);
  EXPECT_EQ(job(ssp()).end(), 100u);
  EXPECT_EQ(job().next(), todo::train);
  auto endless = hundred_steps();
  endless.last_step = endless.eval_every = 0;
  EXPECT_EQ(job(lockstep(), endless).end(), ~0ull);
  auto once = hundred_steps();
  once.eval_every = 0;
  EXPECT_EQ(job(lockstep(), once).end(), 100u) << "evaluated only at the end";
}

TEST(boundary, makes_one_checkpoint_per_interval) {
  auto r = hundred_steps();
  r.eval_every = 0, r.checkpoint_every = 8, r.first_step = 20;
  for (const auto& m : {lockstep(), ssp()}) {
    SCOPED_TRACE(m.name);
    job j(m, r);
    j.at(20);
    EXPECT_EQ(j.end(), 24u);
    EXPECT_EQ(j.next(), todo::train) << "no checkpoint at the first step";
    j.at(24);
    const bool flushes = !m.lockstep;
    const auto made = j.all();
    EXPECT_EQ(std::count(made.begin(), made.end(), todo::collect), 1);
    EXPECT_EQ(std::count(made.begin(), made.end(), todo::flush), flushes ? 1 : 0) << "workers hold weights out of lockstep";
    EXPECT_EQ(j.b.why(), purpose::checkpoint);
    EXPECT_EQ(j.end(), 32u);
    j.at(27);
    j.b.want_checkpoint(27);
    j.all();
    EXPECT_EQ(j.end(), 32u) << "a requested checkpoint does not shift the interval";
  }
  r.last_step = 24;
  job last(lockstep(), r);
  last.at(24);
  EXPECT_EQ(last.all(), (std::vector<todo>{todo::evaluate, todo::collect}));
  EXPECT_EQ(last.b.why(), purpose::last) << "one collection, for the weights and the checkpoint";
}

TEST(boundary, no_evaluation_is_due_at_the_first_step) {
  auto r = hundred_steps();
  r.first_step = 20;
  job j(lockstep(), r);
  EXPECT_FALSE(j.b.due(20));
  EXPECT_FALSE(j.b.due(25));
  EXPECT_TRUE(j.b.due(30));
  r.eval_every = 1;
  EXPECT_TRUE(job(lockstep(), r).b.due(21));
}

// The weights of an evaluation at a boundary are still there until training continues.
TEST(boundary, collects_the_best_weights_before_training_continues) {
  job j;
  j.at(10);
  EXPECT_EQ(j.next(), todo::evaluate);
  j.evaluate();
  j.f.next_evaluation = 20;
  j.b.want_best();
  EXPECT_EQ(j.end(), 10u);
  EXPECT_EQ(j.next(), todo::collect);
  EXPECT_EQ(j.b.why(), purpose::best);
  EXPECT_FALSE(j.b.collected(10));
  EXPECT_EQ(j.next(), todo::train);
  EXPECT_EQ(j.end(), 20u);
}

TEST(boundary, an_evaluation_counts_if_it_is_due_or_requested) {
  job due;
  EXPECT_EQ(due.at(100).next(), todo::evaluate);
  EXPECT_TRUE(due.b.evaluation_counts());
  auto rules = hundred_steps();
  rules.last_step = 95;
  job last(lockstep(), rules);
  EXPECT_EQ(last.at(95).next(), todo::evaluate);
  EXPECT_FALSE(last.b.evaluation_counts()) << "made only because the job ends";
  job requested(lockstep(), rules);
  requested.b.want_evaluation(95);
  EXPECT_EQ(requested.at(95).next(), todo::evaluate);
  EXPECT_TRUE(requested.b.evaluation_counts());
}

TEST(boundary, one_collection_serves_a_checkpoint_or_the_end_and_the_best_weights) {
  job keeps;
  keeps.at(10);
  keeps.b.want_checkpoint(10);
  keeps.b.want_best();
  keeps.f.evaluated = true;
  EXPECT_EQ(keeps.next(), todo::collect);
  EXPECT_EQ(keeps.b.why(), purpose::checkpoint);
  keeps.b.collected(10);
  EXPECT_EQ(keeps.next(), todo::leave);
  job last;
  last.at(100);
  last.f.evaluated = last.f.weights_evaluated = true;
  last.b.want_best();
  EXPECT_EQ(last.next(), todo::collect);
  EXPECT_EQ(last.b.why(), purpose::last);
}

TEST(boundary, collects_the_best_weights_before_a_switch_a_handover_and_a_pause) {
  for (const auto wish : {&boundary::want_handover, &boundary::want_pause}) {
    job j;
    j.at(10);
    j.f.evaluated = true;
    (j.b.*wish)(10);
    j.b.want_best();
    EXPECT_EQ(j.next(), todo::collect);
    EXPECT_EQ(j.b.why(), purpose::best);
  }
}

TEST(boundary, a_request_holds_grants) {
  for (auto wish : {&boundary::want_pause, &boundary::want_stop, &boundary::want_checkpoint, &boundary::want_handover,
                    &boundary::want_evaluation}) {
    job j;
    j.at(3).f.granted = 6;
    (j.b.*wish)(6);
    EXPECT_EQ(j.end(), 6u);
    EXPECT_EQ(j.next(), todo::train);
  }
  job late;
  late.at(3);
  late.b.want_pause(50);
  EXPECT_EQ(late.end(), 10u) << "an earlier evaluation comes first";
}

TEST(boundary, resume_cancels_the_pause_and_no_other_request) {
  for (auto wish : {&boundary::want_stop, &boundary::want_checkpoint, &boundary::want_handover, &boundary::want_evaluation}) {
    job j;
    j.at(3).f.granted = 6;
    (j.b.*wish)(6);
    j.b.resume();
    EXPECT_EQ(j.end(), 6u);
  }
  job switches;
  switches.at(3).f.granted = 6;
  switches.b.want_pause(6);
  switches.b.want_mode(ssp(), 6);
  switches.b.resume();
  EXPECT_EQ(switches.end(), 6u);
  job paused;
  paused.at(3).f.granted = 6;
  paused.b.want_pause(6);
  paused.b.resume();
  EXPECT_EQ(paused.end(), 10u);
}

TEST(boundary, a_condition_ends_the_job_after_the_granted_steps) {
  job j;
  j.at(3).f.granted = 6;
  j.b.want_end();
  EXPECT_EQ(j.end(), 6u);
  EXPECT_EQ(j.next(), todo::train);
  EXPECT_FALSE(j.b.stopped());
}

// --- the order

TEST(boundary, evaluation_in_lockstep_is_a_boundary) {
  job j;
  j.at(10);
  EXPECT_THAT(j.all(), ElementsAre(todo::evaluate, todo::leave));
  j.f.next_evaluation = 20;
  EXPECT_EQ(j.next(), todo::train);
}

TEST(boundary, a_round_is_made_once_per_step_unless_requested) {
  job j;
  j.at(10).f.evaluated = true;
  EXPECT_THAT(j.all(), ElementsAre(todo::leave));
  j.b.want_evaluation(10);
  EXPECT_THAT(j.all(), ElementsAre(todo::evaluate, todo::leave)) << "a user request makes another round";
}

TEST(boundary, evaluates_and_collects_at_the_last_step) {
  job j;
  j.at(100);
  EXPECT_THAT(j.all(), ElementsAre(todo::evaluate, todo::collect));
  EXPECT_EQ(j.b.why(), purpose::last);
}

TEST(boundary, evaluates_at_the_last_step_unless_its_weights_were_evaluated) {
  job j;
  j.at(100).f.evaluated = true;
  EXPECT_THAT(j.all(), ElementsAre(todo::evaluate, todo::collect));
  job weights_evaluated;
  weights_evaluated.at(100).f.evaluated = weights_evaluated.f.weights_evaluated = true;
  EXPECT_THAT(weights_evaluated.all(), ElementsAre(todo::collect));
}

TEST(boundary, out_of_lockstep_the_end_flushes_evaluates_observes_and_collects) {
  job j(ssp());
  j.at(100);
  EXPECT_THAT(j.all(), ElementsAre(todo::flush, todo::evaluate, todo::observe, todo::collect));
}

TEST(boundary, without_drain_the_end_observes_staleness_in_lockstep_too) {
  auto r = hundred_steps();
  r.drains = false;
  job j(lockstep(), r);
  j.at(100);
  EXPECT_THAT(j.all(), ElementsAre(todo::evaluate, todo::observe, todo::collect));
}

TEST(boundary, performs_all_requests_in_a_fixed_order) {
  job j;
  j.at(10);
  j.b.want_pause(10);
  j.b.want_handover(10);
  j.b.want_mode(ssp(), 10);
  j.b.want_checkpoint(10);
  j.b.want_evaluation(10);
  std::vector<todo> first = j.all();
  EXPECT_THAT(first, ElementsAre(todo::flush, todo::evaluate, todo::collect, todo::adopt, todo::flush, todo::collect));
  EXPECT_EQ(j.b.why(), purpose::handover) << "after checkpoint and switch; the next plan pauses";
  EXPECT_TRUE(j.b.pausing());
  EXPECT_FALSE(j.b.paused());
}

TEST(boundary, the_end_comes_before_all_other_requests) {
  job j;
  j.at(10);
  j.b.want_checkpoint(10);
  j.b.want_handover(10);
  j.b.want_pause(10);
  j.b.want_end();
  EXPECT_THAT(j.all(), ElementsAre(todo::evaluate, todo::collect));
  EXPECT_EQ(j.b.why(), purpose::last);
}

TEST(boundary, a_stopped_job_is_not_evaluated) {
  job j;
  j.at(7);
  j.b.want_pause(7);
  j.b.want_stop(7);
  j.b.want_end();
  EXPECT_TRUE(j.b.stopped()) << "a later finish condition does not change it";
  EXPECT_FALSE(j.b.pausing());
  EXPECT_THAT(j.all(), ElementsAre(todo::collect));
}

// --- flushes

TEST(boundary, flushes_for_a_mode_switch_and_out_of_lockstep_for_a_checkpoint) {
  job free(ssp());
  free.at(7);
  free.b.want_checkpoint(7);
  EXPECT_THAT(free.all(), ElementsAre(todo::flush, todo::collect, todo::leave));
  job tight;
  tight.at(7);
  tight.b.want_checkpoint(7);
  EXPECT_THAT(tight.all(), ElementsAre(todo::collect, todo::leave));
  tight.b.want_mode(ssp(), 7);
  EXPECT_THAT(tight.all(), ElementsAre(todo::flush, todo::adopt, todo::leave));
}

TEST(boundary, flushes_once_per_step) {
  job j(ssp());
  j.at(7);
  j.b.want_pause(7);
  j.b.want_checkpoint(7);
  EXPECT_THAT(j.all(), ElementsAre(todo::flush, todo::collect, todo::say_paused));
  j.b.want_checkpoint(7);
  EXPECT_THAT(j.all(), ElementsAre(todo::collect)) << "no step since the last flush";
  j.b.resume();
  EXPECT_EQ(j.next(), todo::train);
  j.at(9);
  j.b.want_checkpoint(9);
  EXPECT_THAT(j.all(), ElementsAre(todo::flush, todo::collect, todo::leave));
}

TEST(boundary, waits_for_all_shards_of_this_flush_round) {
  job j(ssp());
  j.at(7);
  j.b.want_checkpoint(7);
  EXPECT_EQ(j.next(), todo::flush);
  EXPECT_EQ(j.b.now(), waiting::flushing);
  EXPECT_EQ(j.next(), todo::wait);
  EXPECT_FALSE(j.b.flushed(role_id{1}, 1, 2, 7));
  EXPECT_FALSE(j.b.flushed(role_id{1}, 1, 2, 7)) << "duplicate";
  EXPECT_EQ(j.b.answers(), 1u);
  EXPECT_FALSE(j.b.flushed(role_id{3}, 0, 2, 7)) << "of another round";
  EXPECT_TRUE(j.b.flushed(role_id{3}, 1, 2, 7));
  EXPECT_EQ(j.b.now(), waiting::running);
  EXPECT_TRUE(j.b.at_rest(7));
  EXPECT_FALSE(j.b.at_rest(8));
  EXPECT_FALSE(j.b.flushed(role_id{1}, 1, 2, 7)) << "the flush is complete";
}

TEST(boundary, a_request_during_a_flush_is_executed_after_it) {
  job j(ssp());
  j.at(7);
  j.b.want_mode(lockstep(), 7);
  EXPECT_EQ(j.next(), todo::flush);
  j.b.want_checkpoint(7);
  j.flush();
  EXPECT_THAT(j.all(), ElementsAre(todo::collect, todo::adopt, todo::leave)) << "one flush for both";
}

// --- mode switches

TEST(boundary, a_switch_waits_for_all_workers_of_its_mode_epoch) {
  job j;
  j.at(7);
  j.b.want_mode(ssp(), 7);
  EXPECT_TRUE(j.b.changing());
  EXPECT_EQ(j.b.mode().text(), "bsp");
  EXPECT_EQ(j.next(), todo::flush);
  j.flush();
  EXPECT_EQ(j.next(), todo::adopt);
  EXPECT_EQ(j.b.mode().text(), "ssp staleness=3");
  EXPECT_FALSE(j.b.wanted_mode());
  EXPECT_TRUE(j.b.changing()) << "workers have not adopted it yet";
  EXPECT_EQ(j.b.switches(), 1u);
  EXPECT_EQ(j.b.epoch_began_at(), 7u);
  EXPECT_FALSE(j.b.at_rest(7)) << "workers may hold updates in the new mode";
  EXPECT_FALSE(j.b.adopted(role_id{2}, 0, 2)) << "of the previous mode epoch";
  EXPECT_FALSE(j.b.adopted(role_id{2}, 1, 2));
  EXPECT_EQ(j.next(), todo::wait);
  EXPECT_TRUE(j.b.adopted(role_id{4}, 1, 2));
  EXPECT_FALSE(j.b.changing());
  EXPECT_FALSE(j.b.adopted(role_id{4}, 1, 2));
}

TEST(boundary, a_mode_request_at_the_end_is_not_executed) {
  job j;
  j.at(100).f.evaluated = j.f.weights_evaluated = true;
  j.b.want_mode(ssp(), 100);
  EXPECT_THAT(j.all(), ElementsAre(todo::flush, todo::collect));
  EXPECT_TRUE(j.b.wanted_mode());
}

}  // namespace
}  // namespace troupe
