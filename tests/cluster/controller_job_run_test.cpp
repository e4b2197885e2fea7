// The phases of a job: what exists in which phase, and who stops it.
#include <gtest/gtest.h>

#include "runtime/cluster/controller/job_run.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;
const instant run_begins = instant{} + 1000s;

job_run running_job() {
  job_run r;
  r.gather(run_begins);
  r.run(run_begins);
  return r;
}

TEST(controller_job_run, a_phase_has_its_own_deadline_or_none) {
  job_run r;
  r.check(run_begins);
  EXPECT_TRUE(r.submitted());
  EXPECT_FALSE(r.overdue(run_begins));
  EXPECT_TRUE(r.overdue(run_begins + 1ms));
  r.receive(run_begins + 5s);
  EXPECT_FALSE(r.overdue(run_begins + 5s));
  r.queue();
  EXPECT_FALSE(r.submitted());
  EXPECT_FALSE(r.overdue(run_begins + 1000h));
  r.gather(run_begins + 8s);
  EXPECT_TRUE(r.overdue(run_begins + 9s));
  r.run(run_begins + 9s);
  EXPECT_FALSE(r.overdue(run_begins + 1000h));
  r.end(run_begins + 10s, {});
  EXPECT_FALSE(r.overdue(run_begins + 11s, 60s));
  EXPECT_TRUE(r.overdue(run_begins + 71s, 60s));
}

TEST(controller_job_run, nodes_are_awaited_while_preparing_and_ending) {
  job_run r;
  EXPECT_FALSE(r.answered("n1"));
  r.gather(run_begins);
  r.prepare(run_begins, {"n1", "n2"});
  EXPECT_TRUE(r.answered("n1"));
  EXPECT_FALSE(r.answered("n1"));
  EXPECT_EQ(r.awaited(), std::set<std::string>{"n2"});
  r.run(run_begins);
  EXPECT_TRUE(r.awaited().empty());
  r.end(run_begins, {"n1"});
  EXPECT_FALSE(r.answered("n2"));
  EXPECT_TRUE(r.answered("n1"));
}

TEST(controller_job_run, the_deadlines_of_gathering_and_preparing_can_move_to_later_times_only) {
  job_run r;
  r.gather(run_begins + 8s);
  r.wait_until(run_begins + 5s);
  EXPECT_FALSE(r.overdue(run_begins + 8s));
  r.wait_until(run_begins + 10s);
  EXPECT_FALSE(r.overdue(run_begins + 9s));
  EXPECT_TRUE(r.overdue(run_begins + 11s));
  r.prepare(run_begins + 60s, {"n1"});
  r.wait_until(run_begins + 70s);
  EXPECT_FALSE(r.overdue(run_begins + 61s));
  r.end(run_begins + 75s, {});
  r.wait_until(run_begins + 100s);
  EXPECT_TRUE(r.overdue(run_begins + 80s)) << "the end of a job has a fixed deadline";
}

TEST(controller_job_run, a_job_is_over_when_no_node_is_awaited) {
  auto r = running_job();
  r.end(run_begins, {"n1"});
  EXPECT_FALSE(r.over());
  r.await_no_more();
  EXPECT_TRUE(r.awaited().empty());
  r.finish();
  EXPECT_TRUE(r.over());
}

TEST(controller_job_run, a_job_stalls_when_no_message_is_handled_for_two_minutes) {
  auto r = running_job();
  EXPECT_FALSE(r.stalled(1, false, run_begins + 60s));
  EXPECT_FALSE(r.stalled(1, false, run_begins + 179s));
  EXPECT_TRUE(r.stalled(1, false, run_begins + 180s));
  r.progressed(run_begins + 180s);
  EXPECT_FALSE(r.stalled(1, false, run_begins + 299s));
  EXPECT_FALSE(r.stalled(1, true, run_begins + 300s));
  EXPECT_FALSE(r.stalled(2, false, run_begins + 420s));
}

TEST(controller_job_run, a_running_job_is_looked_at_once_in_an_interval) {
  job_run r;
  EXPECT_FALSE(r.look_due(run_begins, 250ms)) << "it does not run";
  r = running_job();
  EXPECT_TRUE(r.look_due(run_begins, 250ms));
  EXPECT_FALSE(r.look_due(run_begins + 249ms, 250ms));
  EXPECT_TRUE(r.look_due(run_begins + 250ms, 250ms));
  EXPECT_FALSE(r.look_due(run_begins + 499ms, 250ms));
}

TEST(controller_job_run, a_paused_job_does_not_stall) {
  auto r = running_job();
  r.pause(true);
  EXPECT_FALSE(r.stalled(0, false, run_begins + 1h));
  r.pause(false);
  EXPECT_TRUE(r.stalled(0, false, run_begins + 2h));
}

TEST(controller_job_run, a_job_that_a_user_stopped_is_not_preempted) {
  auto r = running_job();
  EXPECT_FALSE(r.stopping());
  r.stop();
  r.preempt("n1 shuts down");
  EXPECT_TRUE(r.stopping());
  EXPECT_TRUE(r.preempted().empty());
}

TEST(controller_job_run, a_preempted_job_stays_preempted_when_a_user_stops_it) {
  auto r = running_job();
  r.preempt("n1 shuts down");
  r.stop();
  EXPECT_EQ(r.preempted(), "n1 shuts down");
}

TEST(controller_job_run, post_mortems_are_listed_in_the_order_of_nodes) {
  auto r = running_job();
  r.wrote_post_mortem("n9", "early");  // not ending yet
  r.end(run_begins, {"n1", "n2"});
  EXPECT_EQ(r.post_mortems(), "");
  r.wrote_post_mortem("n2", "b");
  r.wrote_post_mortem("n1", "a");
  EXPECT_EQ(r.post_mortems(), "n1:a, n2:b");
}

}  // namespace
}  // namespace troupe::control
