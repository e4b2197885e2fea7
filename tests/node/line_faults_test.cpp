// Injected faults of a connection: dropped traffic waits as on a link that loses all packets,
// delayed frames arrive later and in order.
#include "runtime/node/net/line_faults.hpp"

#include "tests/node/net_support.hpp"

namespace troupe::net::testing {
namespace {

struct faulty {
  std::shared_ptr<line_faults> faults = std::make_shared<line_faults>();
  node n;
  explicit faulty(const std::string& name) : n(name, [this](tcp_options& o) { o.faults = faults; }) {}
};

void connect(node& a, node& b) {
  b.listen();
  a.net->connect("b", {"127.0.0.1", b.port}, 10s);
  ASSERT_TRUE(a.wait_up("b"));
  ASSERT_TRUE(b.wait_up("a"));
}

TEST(line_faults, report_no_fault_while_none_is_injected) {
  line_faults f;
  EXPECT_EQ(f.drops(), line_faults::clock::duration::zero());
  EXPECT_EQ(f.delays(), line_faults::clock::duration::zero());
  const auto now = line_faults::clock::now();
  f.drop(now - 1s);
  EXPECT_EQ(f.drops(), line_faults::clock::duration::zero()) << "it has ended";
  f.drop(now + 1h);
  f.drop(now + 1min);
  EXPECT_GT(f.drops(), 50min) << "never shortened";
  f.delay(3ms, now + 1h);
  EXPECT_EQ(f.delays(), 3ms);
}

TEST(line_faults, frames_dropped_for_two_seconds_arrive_later_and_in_order) {
  faulty a("a");
  node b("b");
  connect(a.n, b);
  const auto until = clock::now() + 2s;
  a.faults->drop(until);
  for (std::uint64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(a.n.net->send("b", frame_of(pattern(10'000, i), i)));
    ASSERT_TRUE(b.net->send("a", frame_of(pattern(10'000, i), i)));
  }
  for (std::uint64_t i = 0; i < 50; ++i)
    for (node* n : {&a.n, &b}) {
      const frame f = n->take();
      if (i == 0) {
        EXPECT_GE(clock::now(), until) << "no frame arrives before";
      }
      EXPECT_EQ(f.id, i);
      EXPECT_EQ(f.bytes, 10'000u);
    }
  EXPECT_TRUE(a.n.downs.empty() && b.downs.empty()) << "no peer is reported as down";
}

TEST(line_faults, a_longer_drop_is_silence_to_both_nodes_until_they_reconnect) {
  const auto brief = [](tcp_options& o) { o.heartbeat = 50ms, o.silence = 400ms; };
  auto faults = std::make_shared<line_faults>();
  node a("a", [&](tcp_options& o) { brief(o), o.faults = faults; });
  node b("b", brief);
  connect(a, b);
  const auto until = clock::now() + 1500ms;
  faults->drop(until);
  ASSERT_TRUE(a.wait_down("b", 10s));
  ASSERT_TRUE(b.wait_down("a", 10s));
  EXPECT_EQ(a.downs["b"][0].code, "peer_silent");
  EXPECT_EQ(b.downs["a"][0].code, "peer_silent") << "the close of the connection is held back too";
  a.net->connect("b", {"127.0.0.1", b.port}, 10s);
  ASSERT_TRUE(a.eventually(10s, [&] { return a.ups["b"].size() == 2; })) << "once traffic passes again";
  EXPECT_GE(clock::now(), until);
  ASSERT_TRUE(a.net->send("b", frame_of(pattern(100, 1), 7)));
  EXPECT_EQ(b.take().id, 7u);
}

TEST(line_faults, a_delay_at_either_end_is_part_of_the_round_trip_that_both_measure) {
  const auto often = [](tcp_options& o) { o.heartbeat = 20ms, o.silence = 10s; };
  auto faults = std::make_shared<line_faults>();
  node a("a", [&](tcp_options& o) { often(o), o.faults = faults; });
  node b("b", often);
  EXPECT_EQ(a.stats_of("b").round_trip, 0) << "unknown";
  connect(a, b);
  ASSERT_TRUE(a.eventually(10s, [&] { return a.stats_of("b").round_trip > 0 && b.stats_of("a").round_trip > 0; }));
  faults->delay(150ms, clock::now() + 1h);
  ASSERT_TRUE(a.eventually(10s, [&] { return a.stats_of("b").round_trip >= 0.15 && b.stats_of("a").round_trip >= 0.15; }));
  faults->delay(0ms, clock::now());
  ASSERT_TRUE(a.eventually(10s, [&] { return a.stats_of("b").round_trip < 0.15 && b.stats_of("a").round_trip < 0.15; }));
}

TEST(line_faults, close_returns_while_all_traffic_is_dropped) {
  faulty a("a");
  node b("b");
  connect(a.n, b);
  a.faults->drop(clock::now() + 1h);
  ASSERT_TRUE(a.n.net->send("b", frame_of(pattern(100, 1))));
  a.n.net->close();
}

TEST(line_faults, delayed_frames_arrive_later_and_in_order) {
  node a("a");
  faulty b("b");
  connect(a, b.n);
  const auto begun = clock::now();
  b.faults->delay(500ms, begun + 200ms);
  const auto send = [&](std::uint64_t from) {
    for (std::uint64_t i = from; i < from + 50; ++i) ASSERT_TRUE(a.net->send("b", frame_of(pattern(1000, i), i)));
  };
  send(0);
  ASSERT_TRUE(a.eventually(5s, [&] { return clock::now() > begun + 250ms; })) << "the fault is over";
  send(50);  // these stay behind the delayed frames
  for (std::uint64_t i = 0; i < 100; ++i) {
    const frame f = b.n.take();
    if (i == 0) {
      EXPECT_GE(clock::now() - begun, 500ms);
    }
    EXPECT_EQ(f.id, i);
  }
  ASSERT_TRUE(b.n.net->send("a", frame_of(pattern(100, 1), 5)));
  EXPECT_EQ(a.take().id, 5u);
}

TEST(line_faults, delayed_frames_are_lost_when_the_connection_ends) {
  auto a = std::make_unique<node>("a");
  faulty b("b");
  connect(*a, b.n);
  b.faults->delay(1h, clock::now() + 2h);
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(a->net->send("b", frame_of(pattern(1000, i), i)));
  ASSERT_TRUE(b.n.eventually(5s, [&] { return b.n.stats_of("a").frames_in == 10; }));
  a.reset();
  ASSERT_TRUE(b.n.wait_down("a", 5s));
  EXPECT_TRUE(b.n.frames.empty());
}

}  // namespace
}  // namespace troupe::net::testing
