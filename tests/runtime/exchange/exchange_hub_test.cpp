// Behaviour of the hub: which ranks wait for others, errors and notifications, limits, and the
// state after all members have left.
#include "tests/runtime/exchange/exchange_desk.hpp"

namespace troupe::exchange::testing {
namespace {

bool says(const reply& t, std::initializer_list<const char*> words) {
  for (const char* w : words)
    if (t.what.text.find(w) == std::string::npos) {
      ADD_FAILURE() << "'" << t.what.text << "' does not contain " << w;
      return false;
    }
  return true;
}

class exchange_hub : public ::testing::Test {
 protected:
  desk d;
  std::uint64_t lock(std::uint32_t r, const std::string& name = "l") {
    const auto n = d.next(desk::name(r));
    d.say(desk::name(r), take_lock{n, name});
    return n;
  }
  void unlock(std::uint32_t r, const std::string& name = "l") { d.say(desk::name(r), free_lock{d.next(desk::name(r)), name}); }
  void barrier(std::uint32_t r) { d.start(desk::name(r), collective_op::barrier); }
  bool has_reply(std::uint32_t r) const { return d.has_reply(desk::name(r)); }
  code answer_to(std::uint32_t r) { return d.take(r).what.code; }
};

TEST_F(exchange_hub, reports_both_lengths_when_they_differ) {
  d.open_all(2);
  d.say("c0", declare{d.next("c0"), "weights", element::f32, 10});
  EXPECT_EQ(answer_to(0), code::ok);
  d.say("c1", declare{d.next("c1"), "weights", element::f32, 12});
  auto t = d.take(1);
  EXPECT_EQ(t.what.code, code::mismatch);
  says(t, {"'weights'", "rank 1 registers 12 float32", "rank 0 has registered 10 float32"});
  d.say("c1", declare{d.next("c1"), "weights", element::f64, 10});
  t = d.take(1);
  EXPECT_EQ(t.what.code, code::mismatch);
  says(t, {"10 float64", "10 float32"});
  d.say("c1", declare{d.next("c1"), "weights", element::f32, 10});
  EXPECT_EQ(answer_to(1), code::ok);
  d.say("c1", declare{d.next("c1"), "other", element::f64, 1});
  EXPECT_EQ(d.take(1).what.value, 1u);
}

TEST_F(exchange_hub, rejects_a_rank_whose_session_options_differ) {
  EXPECT_EQ(d.open(0, 3, averaging_method::easgd, 0.5), code::ok);
  EXPECT_EQ(d.open(1, 2, averaging_method::easgd, 0.5), code::mismatch);
  EXPECT_EQ(d.open(1, 3, averaging_method::easgd, 0.25), code::mismatch);
  EXPECT_EQ(d.open(1, 3, averaging_method::easgd_sync, 0.5), code::mismatch);
  EXPECT_EQ(d.open(0, 3, averaging_method::easgd, 0.5, "s", "another"), code::rank_taken);
  EXPECT_EQ(d.open(3, 3, averaging_method::easgd, 0.5), code::bad_argument);
  EXPECT_EQ(d.open(1, 3, averaging_method::easgd, 1.0), code::bad_argument);
  EXPECT_EQ(d.open(1, 3, averaging_method::easgd, -0.1), code::bad_argument);
  EXPECT_EQ(d.open(1, 3, averaging_method::easgd, 0.5, ""), code::bad_argument);
  EXPECT_EQ(d.open(1, 3, averaging_method::easgd, 0.5, "a\x1b[2J"), code::bad_argument);
  EXPECT_EQ(d.open(1, 3, averaging_method::easgd, 0.5, std::string(201, 'n')), code::bad_argument);
  EXPECT_EQ(d.open(0, 1, averaging_method::average, 0, "elsewhere", "another"), code::ok) << "sessions are independent";
  d.say("older", open_session{protocol + 1, "s", 2, 3, averaging_method::easgd, 0.5});
  EXPECT_EQ(d.take("older").what.code, code::mismatch);
  EXPECT_TRUE(d.dropped.empty());
}

TEST_F(exchange_hub, a_barrier_waits_for_the_last_rank) {
  d.open_all(3);
  for (int round = 0; round < 3; ++round) {
    barrier(2);
    barrier(0);
    EXPECT_FALSE(has_reply(0) || has_reply(1) || has_reply(2));
    barrier(1);
    for (std::uint32_t r = 0; r < 3; ++r) EXPECT_EQ(answer_to(r), code::ok);
  }
}

TEST_F(exchange_hub, a_round_waits_for_ranks_that_have_not_joined_yet) {
  ASSERT_EQ(d.open(1, 2), code::ok);
  barrier(1);
  EXPECT_FALSE(has_reply(1));
  ASSERT_EQ(d.open(0, 2), code::ok);
  barrier(0);
  EXPECT_EQ(answer_to(1), code::ok);
  EXPECT_EQ(answer_to(0), code::ok);
}

TEST_F(exchange_hub, a_lock_is_granted_in_the_order_of_requests) {
  d.open_all(4, averaging_method::easgd, 0.5);
  lock(2);
  EXPECT_EQ(answer_to(2), code::ok);
  lock(0);
  lock(3);
  lock(1, "another");
  EXPECT_EQ(answer_to(1), code::ok);
  EXPECT_FALSE(has_reply(0) || has_reply(3));
  unlock(2);
  EXPECT_EQ(answer_to(2), code::ok);
  EXPECT_EQ(answer_to(0), code::ok);
  EXPECT_FALSE(has_reply(3));
  unlock(2);
  EXPECT_EQ(answer_to(2), code::not_held);
  lock(0);
  EXPECT_EQ(answer_to(0), code::bad_argument) << "the rank already holds it";
  unlock(0);
  EXPECT_EQ(answer_to(0), code::ok);
  EXPECT_EQ(answer_to(3), code::ok);
}

TEST_F(exchange_hub, a_lost_holders_lock_passes_to_the_next_waiter) {
  d.open_all(3, averaging_method::easgd, 0.5);
  lock(0);
  answer_to(0);
  lock(1);
  lock(2);
  d.gone("c1");  // a waiter that is lost is skipped
  d.gone("c0");
  EXPECT_EQ(answer_to(2), code::ok);
}

TEST_F(exchange_hub, a_cancelled_lock_request_is_not_granted_later) {
  d.open_all(3, averaging_method::easgd, 0.5);
  lock(0);
  answer_to(0);
  const auto call = lock(1);
  d.say("c1", cancel{call});
  lock(2);
  unlock(0);
  answer_to(0);
  EXPECT_FALSE(has_reply(1));
  EXPECT_EQ(answer_to(2), code::ok);
  const auto late = lock(1);
  unlock(2);
  EXPECT_EQ(answer_to(2), code::ok);
  EXPECT_EQ(answer_to(1), code::ok);
  d.say("c1", cancel{late});  // granted while the cancel was in flight: the client would never release it
  lock(0);
  EXPECT_EQ(answer_to(0), code::ok);
}

TEST_F(exchange_hub, rounds_name_the_lost_rank_until_it_rejoins) {
  d.open_all(3);
  d.declare_all<float>(3, 2);
  d.call(0, collective_op::all_reduce, std::vector<float>{1, 2});
  barrier(1);  // a different call: both ranks get the error
  EXPECT_EQ(answer_to(0), code::mismatch);
  auto t = d.take(1);
  EXPECT_EQ(t.what.code, code::mismatch);
  says(t, {"rank 1 calls barrier", "rank 0 is in all_reduce of 'w', sum"});
  d.call(0, collective_op::all_reduce, std::vector<float>{1, 2});
  d.call(1, collective_op::all_reduce, std::vector<float>{1, 2});
  d.gone("c2", "it broke off");
  for (std::uint32_t r : {0u, 1u}) {
    t = d.take(r);
    EXPECT_EQ(t.what.code, code::peer_lost);
    says(t, {"rank 2 is lost: it broke off"});
  }
  barrier(1);
  EXPECT_EQ(answer_to(1), code::peer_lost);
  ASSERT_EQ(d.open(2, 3), code::ok);
  for (std::uint32_t r = 0; r < 3; ++r) barrier(r);
  for (std::uint32_t r = 0; r < 3; ++r) EXPECT_EQ(answer_to(r), code::ok);
  d.say("c0", leave{});
  barrier(1);
  says(d.take(1), {"rank 0 has closed its session"});
}

// Ranks with values in shared memory only report that they have arrived.
TEST_F(exchange_hub, a_round_in_shared_memory_sends_no_values) {
  d.open_all(3);
  d.declare_all<float>(3, 100);
  const auto team = [&](std::uint32_t r, std::uint32_t how) { d.start_in_memory(r, collective_op::all_reduce, how); };
  team(0, 0), team(2, 0);
  EXPECT_FALSE(has_reply(0) || has_reply(2));
  team(1, 0);
  for (std::uint32_t r = 0; r < 3; ++r) {
    const auto t = d.take(r);
    EXPECT_EQ(t.what.code, code::ok);
    EXPECT_EQ(t.what.bytes, 0U);
  }
  team(0, 0), team(1, 1);
  EXPECT_EQ(answer_to(0), code::mismatch);
  says(d.take(1),
       {"rank 1 calls all_reduce in shared memory of 'w', mean", "rank 0 is in all_reduce in shared memory of 'w', sum"});
  team(0, 7);
  EXPECT_EQ(answer_to(0), code::bad_argument);
  team(0, 0);
  d.gone("c2", "it broke off");
  EXPECT_EQ(answer_to(0), code::peer_lost);
}

TEST_F(exchange_hub, a_call_cancelled_in_time_can_be_repeated) {
  d.open_all(2);
  d.declare_all<double>(2, 1);
  const auto call = d.start("c0", collective_op::all_reduce);
  d.give<double>("c0", call, {5}, 0, 1);
  d.say("c0", cancel{call});
  d.call(1, collective_op::all_reduce, std::vector<double>{2});
  EXPECT_FALSE(has_reply(0) || has_reply(1));
  d.call(0, collective_op::all_reduce, std::vector<double>{1});
  EXPECT_EQ(d.values<double>(0), std::vector<double>{3}) << "not 8: the first part was discarded";
  EXPECT_EQ(d.values<double>(1), std::vector<double>{3});
}

TEST_F(exchange_hub, a_cancel_after_the_round_puts_the_rank_out_of_step) {
  d.open_all(2);
  barrier(0);
  barrier(1);
  answer_to(0);
  answer_to(1);
  d.say("c0", cancel{d.calls["c0"]});
  barrier(1);
  auto t = d.take(1);
  EXPECT_EQ(t.what.code, code::out_of_step);
  says(t, {"rank 0's deadline"});
  barrier(0);
  EXPECT_EQ(answer_to(0), code::out_of_step);
  d.say("c0", leave{});
  ASSERT_EQ(d.open(0, 2), code::ok);
  barrier(0);
  barrier(1);
  EXPECT_EQ(answer_to(0), code::ok);
  EXPECT_EQ(answer_to(1), code::ok);
}

TEST_F(exchange_hub, a_cancel_after_an_easgd_step_stops_only_that_worker) {
  d.open_all(2, averaging_method::easgd, 0.5);
  d.declare_all<double>(2, 1);
  std::vector<double> a{4}, b{0};
  d.pull_towards(0, a);
  d.call(1, collective_op::exchange, b);
  d.take(1);
  d.say("c1", cancel{d.calls["c1"]});
  d.call(1, collective_op::exchange, b);
  EXPECT_EQ(answer_to(1), code::out_of_step);
  d.pull_towards(0, a);
  EXPECT_EQ(a[0], 3);
}

TEST_F(exchange_hub, rejects_calls_with_bad_arguments) {
  d.open_all(1, averaging_method::easgd, 0.5);
  d.declare_all<float>(1, 1);
  d.start("c0", collective_op::centre);
  EXPECT_EQ(answer_to(0), code::bad_argument);
  d.start("c0", collective_op::exchange, 7);
  EXPECT_EQ(answer_to(0), code::bad_argument);
  d.start("c0", collective_op::broadcast, 0, 1);
  EXPECT_EQ(answer_to(0), code::bad_argument);
  d.start("c0", collective_op::all_reduce, 0, 5);
  EXPECT_EQ(answer_to(0), code::bad_argument);
}

TEST_F(exchange_hub, enforces_every_limit) {
  hub_limits few;
  few.clients = 3;
  few.group_size = 2;
  few.buffers = 2;
  few.locks = 1;
  few.bytes = 1000;
  desk t(few);
  EXPECT_EQ(t.open(0, 3), code::too_large);
  ASSERT_EQ(t.open(0, 2), code::ok);
  ASSERT_EQ(t.open(1, 2), code::ok);
  const auto ask = [&](const std::string& name, std::uint64_t count) {
    t.say("c0", declare{t.next("c0"), name, element::f64, count});
    return t.take("c0").what.code;
  };
  EXPECT_EQ(ask("huge", std::uint64_t{1} << 61), code::too_large) << "the product must not overflow";
  EXPECT_EQ(ask("large", 26), code::too_large) << "208 bytes: a centre, and two for each of two ranks, are 1040";
  EXPECT_EQ(ask("fits", 20), code::ok);
  EXPECT_EQ(t.h.reserved(), 160u + 4 * 160u);
  EXPECT_EQ(ask("small", 1), code::ok);
  EXPECT_EQ(ask("third", 1), code::too_large);
  t.say("c0", take_lock{t.next("c0"), "a"});
  EXPECT_EQ(t.take("c0").what.code, code::ok);
  t.say("c1", take_lock{t.next("c1"), "b"});
  EXPECT_EQ(t.take("c1").what.code, code::too_large);
  ASSERT_EQ(t.open(0, 1, averaging_method::average, 0, "other", "x"), code::ok);
  EXPECT_EQ(t.open(0, 1, averaging_method::average, 0, "third", "y"), code::too_large);
  for (const char* c : {"c0", "c1", "x", "y"}) t.gone(c);
  EXPECT_EQ(t.h.clients(), 0u);
  EXPECT_EQ(t.h.groups(), 0u);
  EXPECT_EQ(t.h.reserved(), 0u);
}

TEST_F(exchange_hub, reserves_memory_for_clients_and_entries) {
  hub_limits few;
  few.bytes = 1000;
  few.client_bytes = 300;
  few.entry_bytes = 50;
  desk t(few);
  ASSERT_EQ(t.open(0, 2), code::ok);
  ASSERT_EQ(t.open(1, 2), code::ok);
  EXPECT_EQ(t.h.reserved(), 600u);
  EXPECT_EQ(t.open(0, 1, averaging_method::average, 0, "other", "x"), code::ok);
  EXPECT_EQ(t.open(0, 1, averaging_method::average, 0, "third", "y"), code::too_large);
  t.say("c0", take_lock{t.next("c0"), "a"});
  EXPECT_EQ(t.take("c0").what.code, code::ok);
  EXPECT_EQ(t.h.reserved(), 950u);
  t.say("c1", take_lock{t.next("c1"), "b"});
  EXPECT_EQ(t.take("c1").what.code, code::ok);
  t.say("c1", declare{t.next("c1"), "w", element::f64, 1});
  EXPECT_EQ(t.take("c1").what.code, code::too_large);
  t.say("c0", free_lock{t.next("c0"), "a"});
  EXPECT_EQ(t.take("c0").what.code, code::ok);
  EXPECT_EQ(t.h.reserved(), 950u);
  t.gone("x");
  t.h.may_reserve(700);
  t.say("c1", declare{t.next("c1"), "w", element::f64, 1});
  EXPECT_EQ(t.take("c1").what.code, code::too_large) << "40 bytes and an entry exceed the 50 bytes left";
  t.h.may_reserve(740);
  t.say("c1", declare{t.next("c1"), "w", element::f64, 1});
  EXPECT_EQ(t.take("c1").what.code, code::ok);
  EXPECT_EQ(t.h.reserved(), 740u);
  for (const char* c : {"c0", "c1"}) t.gone(c);
  EXPECT_EQ(t.h.reserved(), 0u);
  EXPECT_EQ(t.h.held(), 0u);
}

TEST_F(exchange_hub, drops_a_client_that_violates_the_protocol_and_notifies_the_others) {
  const auto breaks = [](const std::function<void(desk&)>& wrong) {
    desk t;
    t.open_all(2);
    t.declare_all<double>(2, 2);
    t.start("c1", collective_op::barrier);
    wrong(t);
    EXPECT_EQ(t.dropped, std::vector<std::string>{"c0"});
    ASSERT_TRUE(t.has_reply("c1"));
    EXPECT_EQ(t.boxes["c1"].back().what.code, code::peer_lost);
    t.gone("c0");
    EXPECT_EQ(t.h.clients(), 1u);
  };
  breaks([](desk& t) { t.say("c0", open_session{protocol, "s", 0, 2, averaging_method::average, 0}); });
  breaks([](desk& t) { t.say("c0", answer{}); });
  breaks([](desk& t) { t.say("c0", begin{1, collective_op::centre, 0, 0}); });
  breaks([](desk& t) {
    t.start("c0", collective_op::barrier);  // fails, since c1 is in a barrier: c1 is answered
    t.dropped.clear();
    t.start("c1", collective_op::barrier);
    t.say("c0", piece{99, 0, {nullptr, nullptr, 0}});
  });
  // Too many values, values at a wrong offset, and a second call while one waits.
  for (int what = 0; what < 3; ++what) {
    desk t;
    t.open_all(2);
    t.declare_all<double>(2, 2);
    const auto n = t.start("c0", collective_op::all_reduce);
    if (what == 0) t.give<double>("c0", n, {1, 2, 3}, 0, 3);
    if (what == 1) t.give<double>("c0", n, {1, 2}, 1, 2);
    if (what == 2) t.start("c0", collective_op::barrier);
    EXPECT_EQ(t.dropped, std::vector<std::string>{"c0"}) << what;
  }
  desk t;
  t.say("stranger", begin{1, collective_op::barrier, 0, 0});
  t.say("stranger", leave{});
  EXPECT_EQ(t.dropped.size(), 2u);
}

}  // namespace
}  // namespace troupe::exchange::testing
