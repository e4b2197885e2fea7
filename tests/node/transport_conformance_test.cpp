// Conformance tests: sizes, peers and node failures. Parts, order and counters are in
// transport_parts_test.cpp.
#include <thread>

#include "tests/node/transport_conformance.hpp"

namespace troupe::net::testing {
namespace {

using namespace std::chrono_literals;

TEST_P(transport_conformance, every_size_arrives_bit_for_bit_both_ways) {
  node a("a"), b("b");
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  const std::vector<std::size_t> sizes = {
      0, 1, 31, 64, 65, 4095, 16384, 65537, 999999, 1 << 20, 1048577, (5 << 20) + 3, (64 << 20), (64 << 20) + 1};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_TRUE(a.net->send("b", frame_of(pattern(sizes[i], i), i, 9, 77)));
    ASSERT_TRUE(b.net->send("a", frame_of(pattern(sizes[i], i + 100), i)));
    // Dropping a received frame returns its credit, which the large frames need to start.
    for (node* n : {&a, &b}) {
      const frame f = n->take();
      EXPECT_TRUE(same(f, pattern(sizes[i], n == &b ? i : i + 100))) << sizes[i];
      EXPECT_EQ(f.id, i);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(f.payload.get()) % 64, 0U);
      EXPECT_EQ(std::make_pair(f.type, f.destination),
                n == &b ? std::make_pair(std::uint16_t{9}, 77U) : std::make_pair(std::uint16_t{1}, 5U));
    }
  }
  ASSERT_TRUE(a.eventually(5s, [&] { return a.stats_of("b").frames_out == sizes.size(); }));
  const peer_stats out = a.stats_of("b"), in = b.stats_of("a");
  EXPECT_TRUE(out.up);
  EXPECT_EQ(out.bytes_out, in.bytes_in);
  EXPECT_EQ(in.frames_in, sizes.size());
  EXPECT_GT(in.bytes_in, 130U << 20);
  EXPECT_EQ(out.bytes_in, in.bytes_in) << "the same went both ways";
  EXPECT_EQ(in.held, 0U);
}

TEST_P(transport_conformance, a_dial_without_a_name_reaches_any_node) {
  node a("a"), b("b");
  b.listen();
  a.net->connect("", {"127.0.0.1", b.port}, 10s);
  ASSERT_TRUE(a.wait_up("b"));
  EXPECT_TRUE(a.net->send("b", frame_of(pattern(10, 1))));
  EXPECT_TRUE(b.wait_frames(1));
  EXPECT_TRUE(a.downs.empty());
}

TEST_P(transport_conformance, order_is_kept_for_each_pair_with_three_nodes_and_many_threads) {
  node a("a"), b("b"), c("c");
  a.listen();
  b.listen();
  c.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  ASSERT_TRUE(join(b, c, "b", "c"));
  ASSERT_TRUE(join(c, a, "c", "a"));
  constexpr std::uint64_t each = 2000;
  const std::map<std::string, node*> nodes = {{"a", &a}, {"b", &b}, {"c", &c}};
  std::vector<std::thread> senders;
  for (const auto& [from, n] : nodes)
    for (const auto& [to, other] : nodes)
      if (n != other)
        senders.emplace_back([n = n, to = to] {
          for (std::uint64_t i = 0; i < each; ++i)
            ASSERT_TRUE(n->net->send(to, frame_of(pattern(i % 100 == 0 ? 300000 : i % 200, i), i)));
        });
  for (auto& t : senders) t.join();
  for (const auto& [name, n] : nodes) {
    ASSERT_TRUE(n->wait_frames(2 * each)) << name;
    std::map<std::string, std::uint64_t> next;
    for (const auto& r : n->frames) EXPECT_EQ(r.f.id, next[r.peer]++);
    EXPECT_EQ(next.size(), 2U);
  }
}

TEST_P(transport_conformance, two_nodes_that_dial_each_other_get_one_connection) {
  for (int round = 0; round < 20; ++round) {
    node a("a"), b("b");
    a.listen();
    b.listen();
    a.net->connect("b", {"127.0.0.1", b.port}, 10s);
    b.net->connect("a", {"127.0.0.1", a.port}, 10s);
    ASSERT_TRUE(a.wait_up("b"));
    ASSERT_TRUE(b.wait_up("a"));
    ASSERT_TRUE(a.net->send("b", frame_of(pattern(100, 1))));
    ASSERT_TRUE(b.net->send("a", frame_of(pattern(100, 2))));
    ASSERT_TRUE(a.wait_frames(1));
    ASSERT_TRUE(b.wait_frames(1));
    EXPECT_EQ(a.ups["b"].size() + b.ups["a"].size(), 2U);
    EXPECT_TRUE(a.downs.empty() && b.downs.empty());
  }
}

TEST_P(transport_conformance, a_closed_peer_is_down_at_once_with_the_reason) {
  node a("a");
  auto b = std::make_unique<node>("b");
  b->listen();
  ASSERT_TRUE(join(a, *b, "a", "b"));
  b.reset();
  ASSERT_TRUE(a.wait_down("b", 1s));
  EXPECT_EQ(a.downs["b"][0].code, "peer_closed");
  EXPECT_FALSE(a.net->send("b", frame_of(pattern(10, 1))));
  EXPECT_FALSE(a.stats_of("b").up);
}

TEST_P(transport_conformance, close_sends_queued_frames) {
  node b("b");
  b.listen();
  {
    node a("a");
    ASSERT_TRUE(join(a, b, "a", "b"));
    for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(a.net->send("b", frame_of(pattern(1000, i), i)));
    a.net->close();
    EXPECT_FALSE(a.net->send("b", frame_of(pattern(1, 1))));
    a.net->close();
  }
  EXPECT_TRUE(b.wait_frames(100));
}

TEST_P(transport_conformance, a_later_incarnation_replaces_a_peer_and_an_older_is_refused) {
  node a("a");
  a.listen();
  node b1("b");
  ASSERT_TRUE(join(b1, a, "b", "a"));
  {
    node b2("b", [](tcp_options& o) { o.incarnation = 2; });
    b2.net->connect("a", {"127.0.0.1", a.port}, 10s);
    ASSERT_TRUE(a.wait_up("b", 2));
    ASSERT_TRUE(b1.wait_down("a", 3s));
    EXPECT_EQ(a.downs["b"][0].code, "replaced");
    EXPECT_EQ(a.ups["b"], (std::vector<std::uint64_t>{1, 2}));
    ASSERT_TRUE(b2.wait_up("a"));
  }
  ASSERT_TRUE(a.wait_down("b", 3s, 2));
  b1.net->connect("a", {"127.0.0.1", a.port}, 10s);
  ASSERT_TRUE(b1.wait_down("a", 3s, 2)) << "refused at once, not at the deadline";
  EXPECT_EQ(b1.downs["a"][1].code, "stale_incarnation");
}

TEST_P(transport_conformance, connect_waits_for_a_later_listener_until_its_deadline) {
  node a("a"), b("b");
  const std::uint16_t port = [] {
    node c("c");
    return c.listen();
  }();
  a.net->connect("b", {"127.0.0.1", port}, 10s);
  const auto begun = clock::now();
  a.net->connect("c", {"127.0.0.1", port}, 300ms);
  ASSERT_TRUE(a.wait_down("c", 2s));
  EXPECT_GE(clock::now() - begun, 300ms);
  EXPECT_EQ(a.downs["c"][0].code, "connect_deadline");
  ASSERT_TRUE(b.net->listen({"127.0.0.1", port}));
  EXPECT_TRUE(a.wait_up("b", 1, 5s));
}

TEST_P(transport_conformance, a_receiver_that_holds_everything_stops_the_sender_within_its_window) {
  node a("a"), b("b", [](tcp_options&o) { o.window = 4 << 20; });
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  constexpr std::size_t size = 1 << 20, count = 20;
  for (std::uint64_t i = 0; i < count; ++i) ASSERT_TRUE(a.net->send("b", frame_of(pattern(size, i), i)));
  ASSERT_TRUE(b.wait_frames(4));
  EXPECT_FALSE(b.wait_frames(6, 700ms)) << "the window and one frame";
  const peer_stats s = a.stats_of("b");
  EXPECT_GE(s.queued_bytes, 14 * size);
  EXPECT_GE(s.unreturned, 4 * size);
  EXPECT_GE(b.stats_of("a").held, 4 * size);
  // Releasing credit early admits the rest, although the memory is kept.
  for (std::size_t done = 0; done < count;) {
    ASSERT_TRUE(b.wait(10s, [&] { return b.frames.size() > done; }));
    const std::lock_guard lock(b.mutex);
    for (; done < b.frames.size(); ++done) release_credit(b.frames[done].f.payload);
  }
  for (std::uint64_t i = 0; i < count; ++i) EXPECT_TRUE(same(b.frames[i].f, pattern(size, i)));
  EXPECT_TRUE(a.eventually(5s, [&] { return a.stats_of("b").queued_bytes == 0; }));
}

TEST_P(transport_conformance, frames_above_the_window_arrive_and_oversized_ones_are_refused) {
  const auto small = [](tcp_options& o) { o.window = 1 << 16, o.max_frame = 1 << 20; };
  node a("a", small), b("b", small);
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  EXPECT_FALSE(a.net->send("b", frame_of(pattern((1 << 20) + 1, 1))));
  EXPECT_FALSE(a.net->send("b", frame_of(pattern(1, 1), 0, first_reserved_type)));
  EXPECT_FALSE(a.net->send("absent", frame_of(pattern(1, 1))));
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(a.net->send("b", frame_of(pattern(1 << 20, i), i)));
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(same(b.take(), pattern(1 << 20, i)));
  }
}

TEST_P(transport_conformance, callbacks_may_send_and_their_exceptions_end_only_the_connection) {
  node a("a"), b("b");
  b.listen();
  a.when_up = [&](const std::string& p) { EXPECT_TRUE(a.net->send(p, frame_of(pattern(10, 1), 5))); };
  b.when_frame = [&](const std::string& p, frame&& f) -> expected<void, coded_error> {
    if (f.id == 5) {
      EXPECT_TRUE(b.net->send(p, frame_of(pattern(20, 2), 6)));
      return {};
    }
    throw std::runtime_error("from the application");
  };
  ASSERT_TRUE(join(a, b, "a", "b"));
  ASSERT_TRUE(a.wait_frames(1));
  EXPECT_EQ(a.frames[0].f.id, 6U);
  ASSERT_TRUE(a.net->send("b", frame_of(pattern(10, 1), 7)));
  ASSERT_TRUE(b.wait_down("a", 3s));
  EXPECT_EQ(b.downs["a"][0].code, "exception");
  ASSERT_TRUE(a.wait_down("b", 3s));
  a.net->connect("b", {"127.0.0.1", b.port}, 10s);
  EXPECT_TRUE(b.wait_up("a", 2)) << "the I/O thread still runs";
  EXPECT_TRUE(a.wait_frames(2)) << "the second answer, before a node closes";
}

TEST_P(transport_conformance, an_error_of_on_frame_ends_the_connection_with_that_reason) {
  node a("a"), b("b");
  std::vector<std::uint64_t> came;
  b.when_frame = [&](const std::string& p, frame&& f) -> expected<void, coded_error> {
    came.push_back(f.id);
    if (f.id == 2) return unexpected(unreadable(p, f, "it is too odd"));
    return {};
  };
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  for (std::uint64_t id = 1; id <= 50; ++id) (void)a.net->send("b", frame_of(pattern(100, id), id));
  ASSERT_TRUE(b.wait_down("a", 5s));
  EXPECT_EQ(b.downs["a"][0].code, unreadable_frame);
  EXPECT_EQ(b.downs["a"][0].message,
            "[net] a sent a frame that cannot be decoded (type 1, 100 bytes, 0 of them shared): it is too odd");
  ASSERT_TRUE(a.wait_down("b", 5s));
  EXPECT_EQ(came, (std::vector<std::uint64_t>{1, 2})) << "no frame after the refused one is delivered";
  a.net->connect("b", {"127.0.0.1", b.port}, 10s);
  ASSERT_TRUE(a.wait_up("b", 2));
  ASSERT_TRUE(a.net->send("b", frame_of(pattern(100, 1), 1)));
  EXPECT_TRUE(b.eventually(5s, [&] { return b.stats_of("a").frames_in >= 3; }));
  EXPECT_TRUE(b.stats_of("a").up);
}

TEST_P(transport_conformance, disconnect_ends_one_connection) {
  node a("a"), b("b"), c("c");
  a.listen();
  ASSERT_TRUE(join(b, a, "b", "a"));
  ASSERT_TRUE(join(c, a, "c", "a"));
  a.net->disconnect("b");
  ASSERT_TRUE(a.wait_down("b", 1s));
  EXPECT_EQ(a.downs["b"][0].code, "disconnected");
  ASSERT_TRUE(b.wait_down("a", 1s));
  EXPECT_TRUE(a.net->send("c", frame_of(pattern(10, 1))));
  EXPECT_TRUE(c.wait_frames(1));
}

TEST_P(transport_conformance, a_queue_that_exceeds_its_limit_ends_the_connection) {
  node a("a", [](tcp_options&o) { o.max_queued = 8 << 20; }), b("b", [](tcp_options&o) { o.window = 1 << 20; });
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  bool took = true;
  for (std::uint64_t i = 0; took && i < 100; ++i) took = a.net->send("b", frame_of(pattern(1 << 20, i), i));
  EXPECT_FALSE(took);
  ASSERT_TRUE(a.wait_down("b", 5s));
  EXPECT_EQ(a.downs["b"][0].code, "queue_full");
  ASSERT_TRUE(b.wait_down("a", 5s));
}

TEST_P(transport_conformance, the_queue_limit_of_a_peer_can_be_changed_while_it_is_up) {
  node a("a"), b("b", [](tcp_options&o) { o.window = 1 << 20; });
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  a.net->limit("absent", 1);
  a.net->limit("b", 8 << 20);
  bool took = true;
  for (std::uint64_t i = 0; took && i < 100; ++i) took = a.net->send("b", frame_of(pattern(1 << 20, i), i));
  EXPECT_FALSE(took);
  ASSERT_TRUE(a.wait_down("b", 5s));
  EXPECT_EQ(a.downs["b"][0].code, "queue_full");
}

TEST_P(transport_conformance, statistics_name_the_transport) {
  node a("a"), b("b");
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  EXPECT_EQ(a.stats_of("b").transport, GetParam());
}

INSTANTIATE_TEST_SUITE_P(of, transport_conformance, ::testing::Values("tcp", "shm"), [](const auto& p) { return p.param; });

}  // namespace
}  // namespace troupe::net::testing
