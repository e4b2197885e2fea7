// Shared memory in the hub: which member fills it, which members wait, and when it is removed. The
// host's part is not tested here.
#include "tests/runtime/exchange/exchange_desk.hpp"

namespace troupe::exchange::testing {
namespace {

hub_limits few() {
  hub_limits l;
  l.bytes = 1000;
  l.shares = 2;
  return l;
}

class exchange_share : public ::testing::Test {
 protected:
  desk d{few()};
  std::uint64_t share(std::uint32_t r, std::uint64_t count = 10, const std::string& name = "w", element e = element::f32) {
    const auto n = d.next(desk::name(r));
    d.say(desk::name(r), exchange::share{n, name, e, count});
    return n;
  }
  void fill(std::uint32_t r, std::uint64_t id, contents now = contents::full) { d.say(desk::name(r), filled{id, now}); }
  // The last share that rank r was handed; there must be one.
  share_effect given(std::uint32_t r) {
    auto& all = d.handed[desk::name(r)];
    if (all.empty()) {
      ADD_FAILURE() << "rank " << r << " has been handed no share";
      return {};
    }
    auto e = all.back();
    all.pop_back();
    return e;
  }
  bool waits(std::uint32_t r) const {
    return (!d.handed.contains(desk::name(r)) || d.handed.at(desk::name(r)).empty()) && !d.has_reply(desk::name(r));
  }
};

TEST_F(exchange_share, waits_until_the_first_member_has_filled_it) {
  d.open_all(3);
  const auto call = share(0);
  const auto first = given(0);
  EXPECT_EQ(first.what.now, contents::empty);
  EXPECT_EQ(first.what.call, call);
  EXPECT_EQ(first.count, 10u);
  share(1);
  share(2);
  EXPECT_TRUE(waits(1));
  EXPECT_TRUE(waits(2));
  fill(0, first.what.id);
  for (std::uint32_t r : {1u, 2u}) {
    const auto g = given(r);
    EXPECT_EQ(g.what.now, contents::full);
    EXPECT_EQ(g.what.id, first.what.id);
    EXPECT_EQ(g.what.call, d.calls[desk::name(r)]);
  }
  share(1);  // a second call gets it too
  EXPECT_EQ(given(1).what.now, contents::full);
  EXPECT_EQ(d.h.reserved(), 40u);
  EXPECT_EQ(d.h.shares(), 1u);
}

TEST_F(exchange_share, the_next_waiter_fills_it_if_the_first_one_fails) {
  d.open_all(4);
  share(0);
  const auto id = given(0).what.id;
  for (std::uint32_t r : {1u, 2u, 3u}) share(r);
  d.gone("c0");
  EXPECT_EQ(given(1).what.now, contents::empty);
  EXPECT_TRUE(waits(2));
  fill(1, id, contents::empty);  // it cannot map the daemon's memory
  EXPECT_EQ(given(2).what.now, contents::empty);
  EXPECT_TRUE(waits(3));
  d.say("c2", cancel{d.calls["c2"]});  // its deadline passed before it received the share
  EXPECT_EQ(given(3).what.now, contents::empty);
  EXPECT_TRUE(d.unshared.empty());
  fill(3, id);
  share(1);
  EXPECT_EQ(given(1).what.now, contents::full);
  EXPECT_EQ(d.h.shares(), 1u);
}

TEST_F(exchange_share, an_unfilled_share_is_removed_and_may_get_another_size) {
  d.open_all(2);
  share(0, 10);
  const auto id = given(0).what.id;
  fill(0, id, contents::empty);
  EXPECT_EQ(d.unshared, std::vector<std::uint64_t>{id});
  EXPECT_EQ(d.h.reserved(), 0u);
  share(1, 20);
  EXPECT_NE(given(1).what.id, id);
  EXPECT_EQ(d.h.reserved(), 80u);
}

TEST_F(exchange_share, a_waiting_call_can_be_cancelled) {
  d.open_all(2);
  share(0);
  const auto id = given(0).what.id;
  share(1);
  d.say("c1", cancel{d.calls["c1"]});
  fill(0, id);
  EXPECT_TRUE(waits(1)) << "a cancelled call has no answer";
  share(1);
  EXPECT_EQ(given(1).what.now, contents::full);
  d.say("c1", cancel{d.calls["c1"]});  // no effect
  share(0);
  EXPECT_EQ(given(0).what.now, contents::full);
}

TEST_F(exchange_share, ends_with_its_group_not_with_a_member) {
  d.open_all(2);
  share(0);
  const auto id = given(0).what.id;
  fill(0, id);
  share(0, 7, "v", element::f64);
  const auto other = given(0).what.id;  // never filled
  d.gone("c0");
  EXPECT_EQ(d.unshared, std::vector<std::uint64_t>{other});
  d.say("c1", leave{});
  EXPECT_EQ(d.unshared, (std::vector<std::uint64_t>{other, id}));
  EXPECT_EQ(d.h.reserved(), 0u);
  EXPECT_EQ(d.h.shares(), 0u);
  EXPECT_EQ(d.open(0, 2), code::ok);
  share(0);
  const auto anew = given(0);
  EXPECT_EQ(anew.what.now, contents::empty) << "a group that has ended leaves no values";
  EXPECT_GT(anew.what.id, other) << "an id is never used twice";
}

TEST_F(exchange_share, rejects_different_lengths_and_too_much_memory) {
  d.open_all(2);
  share(0, 100);
  fill(0, given(0).what.id);
  share(1, 101);
  auto t = d.take(1);
  EXPECT_EQ(t.what.code, code::mismatch);
  EXPECT_NE(t.what.text.find("rank 1 shares 101 float32, rank 0 has shared 100 float32"), std::string::npos) << t.what.text;
  share(1, 100, "w", element::f64);
  EXPECT_EQ(d.take(1).what.code, code::mismatch);
  share(1, 151, "v");
  EXPECT_EQ(d.take(1).what.code, code::too_large) << "604 bytes of the 600 left";
  share(1, std::uint64_t{1} << 62, "v", element::f64);
  EXPECT_EQ(d.take(1).what.code, code::too_large);
  share(1, 0, "v");
  EXPECT_EQ(d.take(1).what.code, code::bad_argument);
  share(1, 1, "");
  EXPECT_EQ(d.take(1).what.code, code::bad_argument);
  // A buffer takes 5 times its bytes here; shares count against the same limit.
  d.say("c1", declare{d.next("c1"), "b", element::f32, 31});
  EXPECT_EQ(d.take(1).what.code, code::too_large) << "620 bytes";
  d.say("c1", declare{d.next("c1"), "b", element::f32, 29});
  EXPECT_EQ(d.take(1).what.code, code::ok);
  share(1, 6, "v");
  EXPECT_EQ(d.take(1).what.code, code::too_large) << "24 bytes of the 20 left";
  share(1, 5, "v");
  EXPECT_EQ(given(1).what.now, contents::empty);
  EXPECT_EQ(d.h.reserved(), 1000u);
  share(0, 1, "u");
  EXPECT_NE(d.take(0).what.text.find("no more than 2 arrays"), std::string::npos);
}

TEST_F(exchange_share, drops_a_member_that_fills_a_share_it_was_not_given) {
  d.open_all(2);
  share(0);
  const auto id = given(0).what.id;
  share(1);
  fill(1, id);
  EXPECT_EQ(d.dropped, std::vector<std::string>{"c1"});
  fill(0, id);
  fill(0, id);  // it is already full
  EXPECT_EQ(d.dropped, (std::vector<std::string>{"c1", "c0"}));
}

}  // namespace
}  // namespace troupe::exchange::testing
