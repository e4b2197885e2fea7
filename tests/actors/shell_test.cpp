// Tests of the shell's guarantees to a role (runtime/role.hpp): order, tasks, failures.
#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "tests/actors/helpers.hpp"

namespace troupe::testing_actors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
bool is(const envelope& e) {
  return std::holds_alternative<T>(e.body);
}
std::uint64_t token_of(const envelope& e) { return std::get<finished>(e.body).token; }

TEST(shell, ping_pong_across_actors_reaches_its_count) {
  written_host w;
  constexpr std::uint64_t rounds = 10000;
  auto bounce = [](std::uint32_t me, std::uint32_t other) {
    return make_seat(me, [other](const envelope& e, time_point, effects& out) {
      if (e.h.step == rounds) return out.event(note("done from " + std::to_string(index_of(e.h.src))));
      envelope next = make_envelope(0, other, credit{1}, e.h.step + 1);
      out.send(std::move(next));
    });
  };
  w.host.spawn(1, seats(bounce(0, 1), bounce(1, 0)), {0, 0}, 0);
  w.host.deliver(make_envelope(1, 0, start{}));
  ASSERT_TRUE(w.events.wait_for(1));
  EXPECT_THAT(w.events.lines(), ElementsAre("note done from 1"));  // the shell sets src
  EXPECT_EQ(w.host.counts().unknown_job + w.host.counts().unknown_role, 0u);
}

TEST(shell, effects_are_executed_in_order_and_tasks_after_them) {
  written_host w(1);
  w.host.spawn(1,
               seats(make_seat(0,
                               [&](const envelope& e, time_point, effects& out) {
                                 if (is<finished>(e)) return out.event(note("finished " + std::to_string(token_of(e))));
                                 if (!is<start>(e)) return out.event(note("got self"));
                                 out.event(note("a"));
                                 out.run([&](task_context&) { w.events.add("job 7"); }, {}, 7);
                                 out.event(note("b"));
                                 out.run([&](task_context&) { w.events.add("job 8"); }, {}, 8);
                                 out.send(make_envelope(1, 0, credit{1}));
                                 out.event(note("c"));
                               })),
               {0}, 0);
  w.host.deliver(make_envelope(1, 0, start{}));
  ASSERT_TRUE(w.events.wait_for(8));
  // The message to the role itself was in the mailbox when job 7 ended, so it comes before
  // `finished 7`. Tasks keep their order.
  EXPECT_THAT(w.events.lines(),
              ElementsAre("note a", "note b", "note c", "job 7", "note got self", "note finished 7", "job 8", "note finished 8"));
}

TEST(shell, long_chain_of_inline_tasks_does_not_recurse_or_starve_others) {
  written_host w(1);
  constexpr std::uint64_t chain = 200000;
  std::atomic<bool> other_spoke{false};
  std::atomic<std::uint64_t> ran{0};
  gate both_told;
  w.host.spawn(1,
               seats(make_seat(0,
                               [&](const envelope& e, time_point, effects& out) {
                                 const std::uint64_t n = is<finished>(e) ? token_of(e) + 1 : 0;
                                 if (n == 0) both_told.wait();
                                 if (n == chain) return out.event(note("end"));
                                 out.run([&](task_context&) { ++ran; }, {}, n);
                               }),
                     make_seat(1,
                               [&](const envelope&, time_point, effects& out) {
                                 other_spoke = true;
                                 out.event(note("other at " + std::to_string(ran < chain)));
                               })),
               {0, 0}, 0);
  w.host.deliver(make_envelope(1, 0, start{}));
  w.host.deliver(make_envelope(1, 1, start{}));
  both_told.arrive();
  ASSERT_TRUE(w.events.wait_for(2));
  EXPECT_THAT(w.events.lines(), ElementsAre("note other at 1", "note end"));
  EXPECT_EQ(ran, chain);
}

TEST(shell, message_reaches_a_role_between_its_tasks) {
  written_host w(1);
  gate first_runs, message_sent;
  w.host.spawn(1,
               seats(make_seat(0,
                               [&](const envelope& e, time_point, effects& out) {
                                 if (is<halt>(e)) return out.event(note("halt"));
                                 if (is<finished>(e)) return out.event(note("finished " + std::to_string(token_of(e))));
                                 for (std::uint64_t i = 0; i < 3; ++i) {
                                   out.run(
                                       [&](task_context&) {
                                         first_runs.arrive();
                                         message_sent.wait();
                                       },
                                       {}, i);
                                 }
                               })),
               {0}, 0);
  w.host.deliver(make_envelope(1, 0, start{}));
  ASSERT_TRUE(first_runs.wait());
  w.host.deliver(make_envelope(1, 0, halt{}));
  message_sent.arrive();
  ASSERT_TRUE(w.events.wait_for(4));
  EXPECT_THAT(w.events.lines(), ElementsAre("note halt", "note finished 0", "note finished 1", "note finished 2"));
}

TEST(shell, tasks_of_different_slots_overlap_and_of_one_slot_do_not) {
  written_host w(2);
  gate both(2);
  std::atomic<int> in_slot[2] = {0, 0};
  std::atomic<int> clashes{0};
  w.host.spawn(1,
               seats(make_seat(
                   0,
                   [&](const envelope& e, time_point, effects& out) {
                     if (is<finished>(e)) return out.event(note("finished " + std::to_string(token_of(e))));
                     for (std::uint32_t i = 0; i < 8; ++i) {
                       out.run(
                           [&, i](task_context&) {
                             if (++in_slot[i % 2] > 1) ++clashes;
                             if (i < 2) {
                               both.arrive();
                               if (!both.wait()) ++clashes;  // the other slot did not run in parallel
                             }
                             --in_slot[i % 2];
                           },
                           {}, i, i % 2);
                     }
                   },
                   2)),
               {0}, 0);
  w.host.deliver(make_envelope(1, 0, start{}));
  ASSERT_TRUE(w.events.wait_for(8));
  EXPECT_EQ(clashes, 0);
}

// On one thread: role 1 makes role 0 request a task, and then runs a task in a sub-solver.
std::vector<std::string> order_of_jobs(bool gives_way, double bytes, bool adopted = false) {
  written_host w(1);
  auto updates = make_seat(0, [&w, bytes](const envelope& e, time_point, effects& out) {
    if (is<credit>(e)) out.run([&w](task_context&) { w.events.add("update"); }, {0, bytes, "update"}, 1);
  });
  updates.gives_way = gives_way;
  auto stage = make_seat(
      1,
      [&w](const envelope& e, time_point, effects& out) {
        if (is<credit>(e)) return out.run([&w](task_context&) { w.events.add("awake"); }, {}, 1);
        if (!is<start>(e)) return;
        out.send(make_envelope(0, 0, credit{1}));
        out.run([&w](task_context&) { w.events.add("packet"); }, {0, 0, "forward"}, 2);
      },
      2);
  w.host.spawn(1, seats(std::move(updates), std::move(stage)), {0, 0}, 0);
  if (adopted) w.host.deliver(make_envelope(1, 0, adopt{}));
  w.host.deliver(make_envelope(1, 1, credit{1}));  // lets sub-solvers have their initial turn
  EXPECT_TRUE(w.events.wait_for(1));
  w.host.deliver(make_envelope(1, 1, start{}));
  EXPECT_TRUE(w.events.wait_for(3));
  return w.events.lines();
}

TEST(shell, a_role_that_gives_way_runs_long_tasks_after_those_of_sub_solvers) {
  constexpr double long_one = 1 << 30, short_one = 1 << 10;
  EXPECT_THAT(order_of_jobs(true, long_one), ElementsAre("awake", "packet", "update"));
  EXPECT_THAT(order_of_jobs(false, long_one), ElementsAre("awake", "update", "packet"));
  EXPECT_THAT(order_of_jobs(true, short_one), ElementsAre("awake", "update", "packet"));
  EXPECT_THAT(order_of_jobs(true, long_one, true), ElementsAre("awake", "update", "packet"))
      << "after a mode switch it does not give way";
}

TEST(shell, tasks_that_give_way_run_eventually) {
  written_host w(2);
  constexpr int jobs = 300;
  auto updates = make_seat(0, [](const envelope& e, time_point, effects& out) {
    if (is<credit>(e)) out.run([](task_context&) {}, {0, 1 << 30, "update"}, 1);
    if (is<finished>(e)) out.event(note("updated"));
  });
  updates.gives_way = true;
  auto stage = make_seat(
      1,
      [](const envelope& e, time_point, effects& out) {
        if (is<finished>(e)) return out.send(make_envelope(0, 0, credit{1}));
        for (std::uint32_t i = 0; i < jobs; ++i) out.run([](task_context&) {}, {}, i, i % 3);
      },
      3);
  w.host.spawn(1, seats(std::move(updates), std::move(stage)), {0, 0}, 0);
  w.host.deliver(make_envelope(1, 1, start{}));
  EXPECT_TRUE(w.events.wait_for(jobs));
}

TEST(shell, a_role_that_throws_reports_an_error_and_handles_nothing_more) {
  written_host w;
  w.host.spawn(1,
               seats(make_seat(0,
                               [](const envelope& e, time_point, effects& out) {
                                 out.event(note("lost with the exception"));
                                 if (is<start>(e)) throw std::runtime_error("no such weight");
                               })),
               {0}, 0);
  w.host.deliver(make_envelope(1, 0, start{}));
  w.host.deliver(make_envelope(1, 0, credit{1}));
  ASSERT_TRUE(w.events.wait_for(1));
  for (auto until = std::chrono::steady_clock::now() + patience;
       w.host.counts().to_failed == 0 && std::chrono::steady_clock::now() < until;) {
    std::this_thread::yield();
  }
  EXPECT_EQ(w.host.counts().to_failed, 1u);
  EXPECT_THAT(w.events.lines(), ElementsAre("error role role0: no such weight"));
  EXPECT_THAT(w.host.published().at(0).status.waits_for, HasSubstr("no such weight"));
  w.host.end(1);
}

void throwing_job(std::uint32_t slots) {
  written_host w;
  w.host.spawn(1,
               seats(make_seat(
                   0,
                   [](const envelope& e, time_point, effects& out) {
                     if (is<finished>(e)) return out.event(note("finished"));
                     out.run([](task_context&) { throw 7; }, {0, 0, "forward"}, 1);
                     out.run([](task_context&) {}, {0, 0, "forward"}, 2);
                   },
                   slots)),
               {0}, 0);
  w.host.deliver(make_envelope(1, 0, start{}));
  ASSERT_TRUE(w.events.wait_for(1));
  w.host.end(1);
  EXPECT_THAT(w.events.lines(), ElementsAre("error role role0: forward: an exception that is not a std::exception"));
}
TEST(shell, exception_in_an_inline_task_becomes_an_error_event) { throwing_job(1); }
TEST(shell, exception_in_a_sub_solver_becomes_an_error_event) { throwing_job(3); }

TEST(shell, stop_ends_the_role_after_its_tasks) {
  written_host w;
  auto witness = std::make_shared<int>();
  w.host.spawn(1,
               seats(make_seat(
                   0,
                   [&](const envelope&, time_point, effects& out) {
                     out.run([&](task_context&) { w.events.add("job"); }, {}, 1);
                     out.stop();
                     out.event(note("stopping"));
                   },
                   1, witness)),
               {0}, 0);
  w.host.deliver(make_envelope(1, 0, start{}));
  ASSERT_TRUE(w.events.wait_for(2));
  w.host.end(1);
  EXPECT_THAT(w.events.lines(), ElementsAre("note stopping", "job"));
  EXPECT_EQ(witness.use_count(), 1);
}

TEST(shell, tensors_are_frozen_when_sent) {
  written_host w;
  std::vector<float> memory(4);
  w.host.spawn(1,
               seats(make_seat(0,
                               [&](const envelope&, time_point, effects& out) {
                                 tensor t = tensor::borrow(memory.data(), shape{4}, dtype::f32);
                                 out.send(make_envelope(1, 1, forward{t, 0, 0}));
                                 out.send(make_envelope(1, 1, user{1, "", {tensor::borrow(memory.data(), shape{4}, dtype::f32)}}));
                               }),
                     make_seat(1,
                               [](const envelope& e, time_point, effects& out) {
                                 const tensor& t =
                                     is<forward>(e) ? std::get<forward>(e.body).value : std::get<user>(e.body).values[0];
                                 out.event(note(t.frozen() ? "frozen" : "open"));
                               })),
               {0, 0}, 0);
  w.host.deliver(make_envelope(1, 0, start{}));
  ASSERT_TRUE(w.events.wait_for(2));
  EXPECT_THAT(w.events.lines(), ElementsAre("note frozen", "note frozen"));
}

}  // namespace
}  // namespace troupe::testing_actors
