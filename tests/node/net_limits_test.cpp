// Limits on the cost of peers and unauthenticated clients: log lines, a queue that a peer does not
// read, an incarnation that would lock a node out.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/node/net/connection.hpp"
#include "runtime/node/net/line_limit.hpp"
#include "tests/node/net_support.hpp"

namespace troupe::net {
namespace {

using namespace testing;

// --- lines

TEST(line_limit, writes_five_lines_a_minute_of_an_address_and_counts_the_rest) {
  line_limit l;
  const line_limit::instant begun = line_limit::instant{} + 1h;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(l.write("10.0.0.1", "line", begun + 1s), "line") << i;
  for (int i = 0; i < 7; ++i) EXPECT_EQ(l.write("10.0.0.1", "line", begun + 2s), std::nullopt) << i;
  EXPECT_EQ(l.write("10.0.0.2", "other", begun + 2s), "other") << "addresses are counted separately";
  EXPECT_EQ(l.write("10.0.0.1", "line", begun + 62s), "line (7 more such lines were left out before it)");
  EXPECT_EQ(l.write("10.0.0.1", "line", begun + 63s), "line");
}

TEST(line_limit, reports_left_out_lines_after_a_minute_and_forgets_the_address) {
  line_limit l;
  const line_limit::instant begun = line_limit::instant{} + 1h;
  for (int i = 0; i < 1000; ++i) l.write("10.0.0.1", "line", begun);
  l.write("10.0.0.2", "line", begun);
  EXPECT_TRUE(l.due(begun + 59s).empty());
  EXPECT_EQ(l.due(begun + 60s), (std::vector<std::string>{"10.0.0.1: 995 more such lines in a minute"}));
  EXPECT_TRUE(l.empty());
}

TEST(line_limit, a_million_addresses_take_no_more_memory_than_a_thousand) {
  line_limit l;
  const line_limit::instant begun = line_limit::instant{} + 1h;
  std::size_t written = 0;
  for (int i = 0; i < 1'000'000; ++i) written += l.write(std::to_string(i), "line", begun) ? 1 : 0;
  EXPECT_EQ(written, line_limit::max_strangers + line_limit::lines_a_minute);
  EXPECT_EQ(l.strangers(), line_limit::max_strangers + 1);
}

TEST(net_limits, a_thousand_refused_connections_of_one_address_log_a_few_lines) {
  node a("a");
  a.listen();
  for (int i = 0; i < 1000; ++i) {
    raw_client c(a.port);
    c.send_plain("GET / HTTP/1.1\r\n\r\n");
  }
  ASSERT_TRUE(a.eventually(10s, [&] { return a.net->stats().refused >= 1000; }));
  const std::lock_guard lock(a.mutex);
  EXPECT_GE(a.log.size(), line_limit::lines_a_minute);
  EXPECT_LE(a.log.size(), 2 * line_limit::lines_a_minute)
      << "connections that closed before their address was read count as one more address";
}

// --- peers that do not read

TEST(stall, counts_ticks_without_progress_of_a_write) {
  stall s;
  EXPECT_EQ(s.tick(true, 1, 100), 0) << "the first tick of this write";
  EXPECT_EQ(s.tick(true, 1, 100), 1);
  EXPECT_EQ(s.tick(true, 1, 100), 2);
  EXPECT_EQ(s.tick(true, 1, 99), 0) << "the peer has acknowledged a byte";
  EXPECT_EQ(s.tick(true, 1, 99), 1);
  EXPECT_EQ(s.tick(true, 2, 99), 0) << "the socket has taken something";
  EXPECT_EQ(s.tick(false, 2, 99), 0) << "no write is in progress";
  EXPECT_EQ(s.tick(true, 2, 99), 0);
  EXPECT_EQ(s.tick(true, 2, 99), 1);
}

class net_stall : public ::testing::Test {
 protected:
  void SetUp() override { a.listen(); }
  std::unique_ptr<raw_client> up() {
    auto c = std::make_unique<raw_client>(a.port);
    EXPECT_TRUE(c->handshake(certificates() / "good/b"));
    EXPECT_TRUE(c->greet("b"));
    EXPECT_TRUE(c->read() && c->read());
    EXPECT_TRUE(a.wait_up("b"));
    return c;
  }
  node a{"a", [](tcp_options& o) { o.heartbeat = 100ms, o.stalled = 1s; }};
};

TEST_F(net_stall, a_peer_that_sends_and_never_reads_is_down) {
  const auto b = up();
  ASSERT_TRUE(a.net->send("b", frame_of(pattern(32 << 20, 1)))) << "more than any socket buffers";
  const auto begun = clock::now();
  while (clock::now() - begun < 20s && !a.wait_down("b", 50ms))
    if (!b->write_control(control_type::heartbeat)) break;
  ASSERT_TRUE(a.wait_down("b", 1s));
  EXPECT_EQ(a.downs["b"][0].code, "peer_stalled");
}

TEST_F(net_stall, a_peer_that_reads_slowly_stays_up) {
  const auto b = up();
  ASSERT_TRUE(a.net->send("b", frame_of(pattern(32 << 20, 1))));
  // Half a MiB at a time, for four times the limit without progress.
  for (const auto begun = clock::now(); clock::now() - begun < 4s;) {
    ASSERT_TRUE(b->write_control(control_type::heartbeat));
    ASSERT_GT(b->swallow(512 << 10), 0u);
    ASSERT_FALSE(a.wait_down("b", 200ms)) << a.downs["b"][0].code;
  }
  EXPECT_GT(a.stats_of("b").queued_bytes, 0u) << "not all has been read, so a write was waiting all the time";
}

TEST_F(net_stall, a_peer_whose_application_holds_frames_stays_up) {
  node c("c", [](tcp_options& o) { o.window = 1 << 20; });
  ASSERT_TRUE(join(c, a, "c", "a"));
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(a.net->send("c", frame_of(pattern(1 << 20, i), i)));
  ASSERT_TRUE(c.wait_frames(1));
  EXPECT_FALSE(a.wait_down("c", 3s)) << "a job may be paused for hours";
  EXPECT_GT(a.stats_of("c").queued_bytes, 0u);
}

// --- operators

TEST(net_limits, an_operators_queue_limit_is_lower_than_a_nodes_until_raised) {
  node a("a", [](tcp_options& o) { o.operators = true, o.max_queued_operator = 4 << 20; });
  a.listen();
  const auto session = [&](const std::string& name) {
    auto c = std::make_unique<node>("b", [&](tcp_options& o) {
      const auto dir = certificates() / "good";
      o.node = name, o.certificate = dir / "client.pem", o.key = dir / "client.key", o.window = 1 << 16;
    });
    c->net->connect("a", {"127.0.0.1", a.port}, 10s);
    EXPECT_TRUE(a.wait_up(name));
    return c;
  };
  const auto taken = [&](const std::string& name) {
    std::uint64_t n = 0;
    while (n < 100 && a.net->send(name, frame_of(pattern(1 << 20, n), n))) ++n;
    return n;
  };
  const auto one = session("client.1"), two = session("client.2");
  a.net->limit("client.2", 16 << 20);
  EXPECT_LT(taken("client.1"), 8u);
  ASSERT_TRUE(a.wait_down("client.1", 5s));
  EXPECT_EQ(a.downs["client.1"][0].code, "queue_full");
  const auto more = taken("client.2");
  EXPECT_GE(more, 15u);
  EXPECT_LT(more, 24u);
  node c("c", [](tcp_options& o) { o.window = 1 << 16; });
  ASSERT_TRUE(join(c, a, "c", "a"));
  EXPECT_EQ(taken("c"), 100u) << "the limit of nodes applies";
}

// --- incarnations

TEST(net_limits, a_far_future_incarnation_is_refused_and_locks_no_node_out) {
  node a("a");
  a.listen();
  const auto now = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
  constexpr std::uint64_t hour = 3'600'000;
  const auto refused = [&](std::uint64_t incarnation) {
    raw_client c(a.port);
    EXPECT_TRUE(c.handshake(certificates() / "good/b"));
    EXPECT_TRUE(c.greet("b", [&](hello& h) { h.incarnation = incarnation; }));
    EXPECT_TRUE(c.read());
    const auto f = c.read();
    if (!f || f->type != static_cast<std::uint16_t>(control_type::refuse)) return std::string();
    return decode_refusal({f->payload.get(), f->bytes}).code;
  };
  EXPECT_EQ(refused(std::uint64_t{1} << 63), "incarnation_ahead");
  EXPECT_EQ(refused(~std::uint64_t{0}), "incarnation_ahead");
  EXPECT_EQ(refused(now + 25 * hour), "incarnation_ahead");
  {
    node b("b", [&](tcp_options& o) { o.incarnation = now; });
    EXPECT_TRUE(join(b, a, "b", "a"));
  }
  node c("c", [&](tcp_options& o) { o.incarnation = now + hour; });
  EXPECT_TRUE(join(c, a, "c", "a")) << "a clock that is an hour wrong is accepted";
}

}  // namespace
}  // namespace troupe::net
