// The events of one job: those that wait for stores, the history, the last one, and the followers.
#include <gtest/gtest.h>

#include "runtime/cluster/controller/event_log.hpp"

namespace troupe::control {
namespace {

job_event logged(job_event_kind what, std::uint64_t step = 0) { return {1, {step, std::move(what)}}; }

TEST(controller_event_log, an_event_waits_when_a_store_was_begun_before_it) {
  event_log log;
  EXPECT_FALSE(log.holds(logged(step_event{}, 1)));
  log.store_begun();
  log.store_begun();
  EXPECT_TRUE(log.holds(logged(checkpoint_event{}, 2)));
  EXPECT_TRUE(log.holds(logged(step_event{}, 3)));
  log.store_ended({1, kept_kind::checkpoint, "a", {}, {}});
  EXPECT_FALSE(log.next_released());
  log.store_ended({1, kept_kind::checkpoint, "b", {}, {}});
  EXPECT_EQ(log.next_released()->event.step, 2u);
  EXPECT_EQ(log.next_released()->event.step, 3u);
  EXPECT_FALSE(log.next_released());
}

TEST(controller_event_log, the_oldest_result_is_taken_when_several_are_there) {
  event_log log;
  log.store_ended({1, kept_kind::checkpoint, "a", {}, {}});
  log.store_ended({1, kept_kind::weights, "w", {}, {}});
  log.store_ended({1, kept_kind::checkpoint, "b", {}, {}});
  EXPECT_EQ(log.take_result(kept_kind::checkpoint)->path, "a");
  EXPECT_EQ(log.take_result(kept_kind::checkpoint)->path, "b");
  EXPECT_FALSE(log.take_result(kept_kind::checkpoint));
  EXPECT_EQ(log.take_result(kept_kind::weights)->path, "w");
}

TEST(controller_event_log, a_store_that_was_given_up_no_longer_holds_events) {
  event_log log;
  log.give_up_stores();
  EXPECT_FALSE(log.stores_given_up());
  log.store_begun();
  log.give_up_stores();
  EXPECT_TRUE(log.stores_given_up());
  EXPECT_FALSE(log.holds(logged(step_event{})));
  log.store_ended({1, kept_kind::weights, "w", {}, {}});  // late
  EXPECT_EQ(log.stores(), 0u);
}

TEST(controller_event_log, a_job_has_one_last_event) {
  event_log log;
  EXPECT_FALSE(log.ended());
  EXPECT_TRUE(log.end_with(logged(error_event{"bad"}, 4)));
  EXPECT_FALSE(log.end_with(logged(done_event{}, 5)));
  log.last_to_complete().event.as<error_event>()->where = "n2";
  EXPECT_EQ(log.last()->event.as<error_event>()->where, "n2");
}

TEST(controller_event_log, waiting_events_are_dropped_when_the_job_ends) {
  event_log log;
  log.store_begun();
  EXPECT_TRUE(log.holds(logged(step_event{}, 1)));
  log.end_with(logged(error_event{"bad"}, 1));
  log.store_ended({1, kept_kind::checkpoint, "a", {}, {}});
  EXPECT_FALSE(log.next_released());
}

TEST(controller_event_log, the_history_is_in_the_order_of_steps_with_the_last_event_at_the_end) {
  event_log log;
  log.sent(logged(step_event{}, 1));
  log.sent(logged(checkpoint_event{}, 1));
  log.sent(logged(step_event{}, 2));
  log.end_with(logged(done_event{}, 2));
  log.sent(logged(done_event{}, 2));
  log.sent(logged(step_event{}, 3));
  std::string kinds;
  for (const auto* e : log.history()) kinds += name_of(e->event).id + std::to_string(e->event.step) + " ";
  EXPECT_EQ(kinds, "checkpoint1 step1 step2 step3 done2 ");
}

TEST(controller_event_log, the_history_is_bounded) {
  event_log log;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    log.sent(logged(step_event{}, i));
    log.sent(logged(alert_event{"text"}, i));
  }
  EXPECT_EQ(log.history().size(), event_log::max_steps + event_log::max_others);
  EXPECT_EQ(log.history().back()->event.step, 2999u);
}

TEST(controller_event_log, a_client_gets_the_history_once_per_connection) {
  event_log log;
  EXPECT_TRUE(log.needs_history("c1"));
  EXPECT_FALSE(log.needs_history("c1"));
  log.follow("c1");
  log.disconnected("c1");
  EXPECT_TRUE(log.followers().empty());
  EXPECT_TRUE(log.needs_history("c1"));
}

TEST(controller_event_log, a_follower_needs_no_history) {
  event_log log;
  log.follow("c1");  // from the submission on
  EXPECT_FALSE(log.needs_history("c1"));
}

}  // namespace
}  // namespace troupe::control
