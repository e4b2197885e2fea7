// Parts of a connection without sockets: outbox, receive window, receive buffer, buffer pool.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/node/net/outbox.hpp"
#include "runtime/node/net/receive_buffer.hpp"
#include "runtime/node/net/receive_window.hpp"

namespace troupe::net {
namespace {

using put_result = outbox::put_result;

outgoing_frame frame_with(std::uint64_t id, std::shared_ptr<const void> owner = nullptr) {
  outgoing_frame f;
  f.id = id;
  f.parts.push_back({nullptr, 0, std::move(owner)});
  return f;
}

TEST(outbox, accepts_frames_between_open_and_shut_and_wakes_the_taker_once) {
  outbox o(1000);
  EXPECT_EQ(o.put(frame_with(0), 10), put_result::closed);
  o.open();
  EXPECT_EQ(o.put(frame_with(1), 10), put_result::first);
  EXPECT_EQ(o.put(frame_with(2), 20), put_result::more);
  EXPECT_EQ(o.bytes(), 30u);
  EXPECT_EQ(o.frames(), 2u);
  std::vector<outbox::left> taken;
  o.take(taken);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].f.id, 1u);
  EXPECT_EQ(taken[1].bytes, 20u);
  EXPECT_EQ(o.bytes(), 30u) << "taken, but not written yet";
  o.gone(10, 1);
  EXPECT_EQ(o.bytes(), 20u);
  EXPECT_EQ(o.frames(), 1u);
  EXPECT_EQ(o.put(frame_with(3), 1), put_result::first) << "take() was called since";
  o.shut();
  EXPECT_EQ(o.put(frame_with(4), 1), put_result::closed);
  taken.clear();
  o.take(taken);
  EXPECT_EQ(taken.size(), 1u) << "frames put before shut() stay";
}

TEST(outbox, reports_full_once_and_counts_empty_frames) {
  outbox o(2 * frame_overhead + 100);
  o.open();
  EXPECT_EQ(o.put(frame_with(1), 100), put_result::first);
  EXPECT_EQ(o.put(frame_with(2), 0), put_result::more);
  EXPECT_EQ(o.put(frame_with(3), 0), put_result::full);
  EXPECT_EQ(o.put(frame_with(4), 0), put_result::closed);
  EXPECT_EQ(o.frames(), 2u);
}

TEST(outbox, drop_destroys_frames_outside_the_lock) {
  outbox o(1000);
  o.open();
  std::uint64_t seen = 0;
  const std::shared_ptr<const void> owner(&seen,
                                          [&](const void*) { seen += o.put(frame_with(9), 0) == put_result::closed ? 1 : 0; });
  EXPECT_EQ(o.put(frame_with(1, owner), 10), put_result::first);
  const_cast<std::shared_ptr<const void>&>(owner).reset();
  EXPECT_EQ(seen, 0u);
  EXPECT_EQ(o.drop().size(), 1u);
  EXPECT_EQ(seen, 1u);
  o.forget();
  EXPECT_EQ(o.bytes() + o.frames(), 0u);
}

frame_header of(std::uint64_t bytes) {
  frame_header h;
  h.length = bytes;
  return h;
}

TEST(receive_window, admits_each_class_up_to_its_share_until_credit_is_collected) {
  constexpr std::uint64_t window = 1 << 20;
  receive_window w(window, buffer_pool::make(0));
  int reports = 0;
  w.on_report([&] { ++reports; });
  std::vector<std::shared_ptr<std::byte>> held;
  std::uint64_t cost = 0;
  while (true) {
    auto block = w.admit(of(1000));
    if (!block) {
      EXPECT_EQ(block.error().code, "credit_exceeded");
      break;
    }
    held.push_back(std::move(*block));
    cost += frame_cost(1000);
  }
  EXPECT_GE(cost, share_of(frame_class::small, window));
  EXPECT_LT(cost, share_of(frame_class::small, window) + frame_cost(1000));
  EXPECT_EQ(w.held(), cost);
  EXPECT_TRUE(w.admit(of(small_frame + 1))) << "large frames have a separate share";
  EXPECT_EQ(w.collect(frame_class::small), 0u);
  held.clear();
  EXPECT_GT(reports, 0);
  EXPECT_FALSE(w.admit(of(1000))) << "given back, but not collected yet";
  EXPECT_EQ(w.collect(frame_class::small), cost);
  EXPECT_TRUE(w.admit(of(1000)));
  w.on_report({});
}

std::vector<std::byte> written(std::uint64_t id, const std::vector<std::byte>& payload) {
  frame_header h;
  h.type = 7;
  h.id = id;
  h.length = payload.size();
  std::vector<std::byte> out(header_bytes);
  seal_header(h, std::vector{std::span(payload)}, std::span<std::byte, header_bytes>(out.data(), header_bytes));
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

TEST(buffer_pool, releases_blocks_that_were_unused_between_two_calls) {
  const auto pool = buffer_pool::make(std::uint64_t{64} << 20);
  constexpr std::size_t large = 1 << 20;
  const auto take = [&](int n) {
    std::vector<std::shared_ptr<std::byte>> blocks;
    for (int i = 0; i < n; ++i) blocks.push_back(pool->take(large, nullptr));
    return blocks;
  };
  take(10);
  EXPECT_EQ(pool->kept_bytes(), 10 * large);
  EXPECT_EQ(pool->release_unused(), 0U) << "they were in use since the last call";
  auto held = take(3);
  EXPECT_EQ(pool->release_unused(), 7 * large) << "three have been used again";
  EXPECT_EQ(pool->kept_bytes(), 0U);
  held.clear();
  EXPECT_EQ(pool->release_unused(), 0U);
  EXPECT_EQ(pool->release_unused(), 3 * large);
  EXPECT_EQ(pool->kept_bytes(), 0U);
}

// The frames do not depend on how their bytes are split; long payloads are read in place.
TEST(receive_buffer, frames_do_not_depend_on_how_their_bytes_are_split) {
  std::vector<std::byte> stream;
  const std::size_t sizes[] = {0, 1, 100, 40'000, 300'000, 5};
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    const auto one = written(i, std::vector(sizes[i], static_cast<std::byte>(i)));
    stream.insert(stream.end(), one.begin(), one.end());
  }
  for (const std::size_t most : {std::size_t{7}, std::size_t{1000}, std::size_t{1} << 20}) {
    receive_window w(1 << 22, buffer_pool::make(0));
    receive_buffer in(1 << 20, [&](const frame_header& h) { return w.admit(h); });
    in.allow_data();
    std::vector<std::size_t> got;
    for (std::size_t at = 0; at < stream.size();) {
      const auto room = in.room();
      ASSERT_FALSE(room.empty());
      const auto n = std::min({room.size(), most, stream.size() - at});
      std::memcpy(room.data(), stream.data() + at, n);
      at += n;
      in.received(n);
      frame f;
      for (auto r = in.next(f); r != frame_parser::result::need_more; r = in.next(f)) {
        ASSERT_EQ(r, frame_parser::result::complete) << in.failure().message;
        EXPECT_EQ(f.id, got.size());
        EXPECT_TRUE(std::all_of(f.payload.get(), f.payload.get() + f.bytes, [&](std::byte b) { return b == std::byte(f.id); }));
        got.push_back(f.bytes);
        f = {};
      }
    }
    EXPECT_EQ(got, std::vector(std::begin(sizes), std::end(sizes))) << "pieces of " << most;
  }
}

TEST(receive_buffer, a_data_frame_before_the_peer_is_accepted_is_an_error) {
  receive_buffer in(1 << 20, [](const frame_header&) { return unexpected(coded_error{"never", ""}); });
  const auto one = written(1, std::vector(10, std::byte{1}));
  std::memcpy(in.room().data(), one.data(), one.size());
  in.received(one.size());
  frame f;
  EXPECT_EQ(in.next(f), frame_parser::result::failed);
  EXPECT_EQ(in.failure().code, "unexpected_frame");
}

}  // namespace
}  // namespace troupe::net
