// The reply to a call of the exchange: takes the complete answer to the waiting call, and nothing
// else.
#include "runtime/exchange/client/reply.hpp"

#include <gtest/gtest.h>

namespace troupe::exchange {
namespace {

answer said(std::uint64_t call, std::uint64_t bytes = 0) { return {call, code::ok, "well", 3, bytes}; }
piece some(std::uint64_t call, std::uint64_t offset, std::size_t n) {
  static const std::vector<std::byte> bytes(64, std::byte{5});
  return {call, offset, {nullptr, bytes.data(), n}};
}

TEST(exchange_reply, an_answer_without_values_is_complete_at_once) {
  reply r;
  EXPECT_FALSE(r.take(said(0))) << "no call waits";
  r.await(7, 0);
  EXPECT_EQ(r.call(), 7u);
  EXPECT_FALSE(r.take(said(6))) << "for an earlier call";
  EXPECT_FALSE(r.complete());
  EXPECT_TRUE(r.take(said(7)));
  EXPECT_TRUE(r.complete());
  EXPECT_EQ(r.said().text, "well");
  EXPECT_FALSE(r.take(said(7))) << "a second answer";
}

TEST(exchange_reply, values_follow_the_answer_in_order_and_within_the_calls_room) {
  reply r;
  r.await(1, 24);
  EXPECT_FALSE(r.take(said(1, 32))) << "more than this call has room for";
  EXPECT_FALSE(r.take(some(1, 0, 8))) << "before the answer";
  EXPECT_TRUE(r.take(said(1, 24)));
  EXPECT_FALSE(r.complete());
  EXPECT_FALSE(r.take(some(2, 0, 8))) << "for another call";
  EXPECT_FALSE(r.take(some(1, 8, 8))) << "a gap";
  EXPECT_FALSE(r.take(some(1, 0, 32))) << "too much";
  EXPECT_FALSE(r.take(some(1, 0, 8))) << "taken, but not all";
  EXPECT_FALSE(r.complete());
  EXPECT_TRUE(r.take(some(1, 8, 16)));
  ASSERT_TRUE(r.complete());
  EXPECT_EQ(r.values()[0], std::byte{5});
  EXPECT_EQ(r.values()[23], std::byte{5});
}

TEST(exchange_reply, a_stopped_call_takes_nothing_more_and_the_next_starts_afresh) {
  reply r;
  r.await(1, 8);
  EXPECT_TRUE(r.take(said(1, 8)));
  r.stop();
  EXPECT_FALSE(r.take(some(1, 0, 8)));
  r.await(2, 8);
  EXPECT_FALSE(r.complete());
  EXPECT_FALSE(r.take(some(1, 0, 8)));
  shared_at at;
  at.call = 2;
  at.id = 40;
  EXPECT_TRUE(r.take(at));
  ASSERT_TRUE(r.complete() && r.where());
  EXPECT_EQ(r.where()->id, 40u);
  EXPECT_EQ(r.said().code, code::ok);
  r.await(3, 0);
  EXPECT_FALSE(r.where());
}

}  // namespace
}  // namespace troupe::exchange
