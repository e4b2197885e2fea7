// Unauthenticated clients, impostors and misbehaving peers: which are accepted, how soon the others
// are disconnected, and that the node continues to serve.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>

#include "tests/node/net_support.hpp"

namespace troupe::net {
namespace {

using namespace testing;
using namespace std::chrono_literals;

class net_refusal : public ::testing::Test {
 protected:
  void SetUp() override { a.listen(); }
  // After any attack a regular peer can still connect and send.
  void still_serving() {
    node b("b");
    ASSERT_TRUE(join(b, a, "b", "a"));
    const std::size_t before = a.frames.size();
    ASSERT_TRUE(b.net->send("a", frame_of(pattern(1000, 1))));
    ASSERT_TRUE(a.wait_frames(before + 1));
  }
  std::filesystem::path good(const std::string& name) const { return certificates() / "good" / name; }
  // An authenticated peer named `b`, up at `a`, which decides about the connection.
  std::unique_ptr<raw_client> authenticated() {
    auto c = std::make_unique<raw_client>(a.port);
    EXPECT_TRUE(c->handshake(good("b")));
    EXPECT_TRUE(c->greet("b"));
    EXPECT_EQ(c->read()->type, static_cast<std::uint16_t>(control_type::hello));
    EXPECT_EQ(c->read()->type, static_cast<std::uint16_t>(control_type::welcome));
    EXPECT_TRUE(a.wait_up("b"));
    return c;
  }
  node a{"a"};
};

TEST_F(net_refusal, plain_text_and_random_bytes_are_disconnected_within_a_second) {
  std::mt19937_64 rng(4);
  std::string noise(4096, '\0');
  for (char& c : noise) c = static_cast<char>(rng());
  noise[0] = 'x';  // never the beginning of a TLS record
  for (const std::string& text : {std::string("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), noise, std::string(32, '\xff')}) {
    raw_client c(a.port);
    c.send_plain(text);
    EXPECT_TRUE(c.closed_within(1s));
  }
  EXPECT_TRUE(a.eventually(1s, [&] { return a.net->stats().refused == 3; }));
  still_serving();
}

TEST_F(net_refusal, mutated_tls_hellos_are_refused_and_leave_nothing_open) {
  std::mt19937_64 rng(5);
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 1000; ++i) {
    std::string record("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
    record.resize(11 + rng() % 600);
    for (std::size_t k = 5; k < record.size(); ++k) record[k] = static_cast<char>(rng());
    raw_client c(a.port);
    c.send_plain(record);
  }
  EXPECT_TRUE(a.eventually(10s, [&] { return a.net->stats().refused >= 1000; }));
  EXPECT_TRUE(a.eventually(1s, [&] { return a.net->stats().pending == 0 && open_descriptors() == before; }));
  still_serving();
}

TEST_F(net_refusal, wrong_expired_or_missing_certificates_are_refused_in_a_second) {
  for (const auto& stem : {certificates() / "other/b", good("old"), std::filesystem::path()}) {
    raw_client c(a.port);
    c.handshake(stem);  // in TLS 1.3 the client's side may succeed
    EXPECT_TRUE(c.closed_within(1s)) << stem;
  }
  EXPECT_TRUE(a.wait_log("certificate_refused: [tls] the peer's certificate: certificate has expired", 1s));
  EXPECT_TRUE(a.wait_log("it is signed by another CA: expected that of ", 1s));
  EXPECT_TRUE(a.wait_log("certificate_refused: [tls] the peer sent no certificate", 1s));
  EXPECT_TRUE(a.eventually(1s, [&] { return a.net->stats().refused == 3; }));
  still_serving();
}

TEST_F(net_refusal, a_node_of_another_cluster_is_refused_at_once_with_the_reason) {
  const auto other = [](tcp_options& o) {
    const auto dir = certificates() / "other";
    o.ca = dir / "ca.pem", o.certificate = dir / "b.pem", o.key = dir / "b.key";
  };
  node b("b", other);
  b.net->connect("a", {"127.0.0.1", a.port}, 10s);
  ASSERT_TRUE(b.wait_down("a", 1s));
  EXPECT_EQ(b.downs["a"][0].code, "certificate_refused") << "b does not trust a's certificate either";
  still_serving();
}

TEST_F(net_refusal, a_silent_client_is_disconnected_after_5_s_before_and_after_tls) {
  raw_client mute(a.port), shy(a.port);
  ASSERT_TRUE(shy.handshake(good("b")));
  const auto begun = clock::now();
  still_serving();
  EXPECT_TRUE(mute.closed_within(6s));
  EXPECT_TRUE(shy.closed_within(1s + 5s - (clock::now() - begun)));
  EXPECT_GT(clock::now() - begun, 4500ms) << "not before the handshake timeout";
  EXPECT_TRUE(a.wait_log("handshake_timeout", 1s));
}

TEST_F(net_refusal, at_most_256_are_unauthenticated_and_a_regular_peer_gets_in) {
  std::list<raw_client> crowd;
  for (int i = 0; i < 300; ++i) crowd.emplace_back(a.port);
  EXPECT_TRUE(crowd.front().closed_within(2s)) << "the oldest are closed";
  EXPECT_TRUE(a.eventually(1s, [&] { return a.net->stats().refused >= 44; }));
  EXPECT_LE(a.net->stats().pending, 256U);
  still_serving();
}

TEST_F(net_refusal, impostors_and_wrong_peers_receive_the_reason) {
  const auto refusal = [&](const std::string& certificate, const std::string& name,
                           const std::function<void(hello&)>& adjust = {}) {
    raw_client c(a.port);
    EXPECT_TRUE(c.handshake(good(certificate)));
    EXPECT_TRUE(c.greet(name, adjust));
    EXPECT_EQ(c.read()->type, static_cast<std::uint16_t>(control_type::hello));
    const auto f = c.read();
    EXPECT_TRUE(f && f->type == static_cast<std::uint16_t>(control_type::refuse));
    EXPECT_TRUE(c.closed_within(1s));
    return f ? decode_refusal({f->payload.get(), f->bytes}).code : std::string();
  };
  EXPECT_EQ(refusal("b", "c"), "name_mismatch");
  EXPECT_EQ(refusal("a", "a"), "self_connection");
  EXPECT_EQ(refusal("client", "client"), "wrong_node");
  EXPECT_EQ(refusal("b", "b", [](hello& h) { h.cluster = "elsewhere"; }), "wrong_cluster");
  EXPECT_EQ(refusal("b", "b", [](hello& h) { h.protocol = 99; }), "protocol_version");
  EXPECT_EQ(refusal("b", "b", [](hello& h) { h.protocol = 1; }), "protocol_version") << "a protocol without streams";
  EXPECT_TRUE(a.ups.empty());
  still_serving();
}

TEST_F(net_refusal, operator_sessions_are_accepted_only_where_they_are_allowed) {
  const auto session = [](const std::string& name) {
    return [name](tcp_options& o) {
      o.node = name;
      o.certificate = certificates() / "good/client.pem", o.key = certificates() / "good/client.key";
    };
  };
  node one("client.one", session("client.one"));
  one.net->connect("a", {"127.0.0.1", a.port}, 10s);
  ASSERT_TRUE(one.wait_down("a", 2s));
  EXPECT_EQ(one.downs["a"][0].code, "wrong_node");

  node b("b", [](tcp_options& o) { o.operators = true; });
  b.listen();
  node two("client.two", session("client.two"));
  ASSERT_TRUE(join(one, b, "client.one", "b"));
  ASSERT_TRUE(join(two, b, "client.two", "b"));
  ASSERT_TRUE(b.net->send("client.one", frame_of(pattern(10, 1))));
  EXPECT_TRUE(one.wait_frames(1));
  two.net->close();
  ASSERT_TRUE(b.wait_down("client.two", 2s));
  EXPECT_EQ(b.net->stats().peers.size(), 1U) << "a closed session leaves no record";

  raw_client impostor(b.port);  // a node's certificate does not make an operator
  ASSERT_TRUE(impostor.handshake(good("c")));
  ASSERT_TRUE(impostor.greet("client.c", [](hello& h) { h.wanted = "b"; }));
  EXPECT_TRUE(impostor.closed_within(1s));
  EXPECT_TRUE(b.ups["client.c"].empty());
}

TEST_F(net_refusal, dialling_one_node_and_reaching_another_is_an_error) {
  node b("b");
  b.net->connect("c", {"127.0.0.1", a.port}, 10s);
  ASSERT_TRUE(b.wait_down("c", 2s));
  EXPECT_EQ(b.downs["c"][0].code, "wrong_node");
  EXPECT_TRUE(a.ups.empty());
}

TEST_F(net_refusal, data_before_the_welcome_and_unexpected_frames_end_the_connection) {
  {
    raw_client c(a.port);
    ASSERT_TRUE(c.handshake(good("b")));
    c.write_frame({1, 0, 0, 0, 0, 0}, pattern(100, 1));
    EXPECT_TRUE(c.closed_within(1s));
  }
  {
    raw_client c(a.port);
    ASSERT_TRUE(c.handshake(good("b")));
    c.write_control(control_type::welcome);
    EXPECT_TRUE(c.closed_within(1s));
  }
  EXPECT_TRUE(a.wait_log("unexpected_frame", 1s));
  EXPECT_TRUE(a.ups.empty());
  still_serving();
}

TEST_F(net_refusal, an_announced_frame_of_4_gib_ends_only_its_connection) {
  node c("c");
  ASSERT_TRUE(join(c, a, "c", "a"));
  const auto b = authenticated();
  bytes header(header_bytes);
  encode_header({1, 0, 0, 0, 0, std::uint64_t{4} << 30}, std::span<std::byte, header_bytes>(header.data(), header_bytes));
  ASSERT_TRUE(b->write(header));
  EXPECT_TRUE(b->closed_within(1s));
  ASSERT_TRUE(a.wait_down("b", 1s));
  EXPECT_EQ(a.downs["b"][0].code, "frame_too_large");
  EXPECT_TRUE(a.downs["c"].empty());
  ASSERT_TRUE(c.net->send("a", frame_of(pattern(1000, 1))));
  EXPECT_TRUE(a.wait_frames(1));
}

TEST_F(net_refusal, a_peer_that_ignores_its_window_or_invents_credit_is_disconnected) {
  a.when_frame = [this](const std::string&, frame&& f) -> expected<void, coded_error> {
    const std::lock_guard lock(a.mutex);
    a.frames.push_back({"b", std::move(f)});
    return {};
  };
  {
    const auto b = authenticated();
    const bytes eight = pattern(1 << 20, 1);
    bool open = true;
    for (int i = 0; i < 70 && open; ++i) open = b->write_frame({1, 0, 0, 0, 0, 0}, eight);
    ASSERT_TRUE(a.wait_down("b", 5s));
    EXPECT_EQ(a.downs["b"][0].code, "credit_exceeded");
  }
  const auto b = std::make_unique<raw_client>(a.port);
  ASSERT_TRUE(b->handshake(good("b")) && b->greet("b") && b->read() && b->read());
  frame_header h;
  h.type = static_cast<std::uint16_t>(control_type::credit);
  h.id = 1;
  ASSERT_TRUE(b->write_frame(h, {}));
  ASSERT_TRUE(a.wait_down("b", 5s, 2));
  EXPECT_EQ(a.downs["b"][1].code, "bad_credit");
  const auto again = std::make_unique<raw_client>(a.port);
  ASSERT_TRUE(again->handshake(good("b")) && again->greet("b") && again->read() && again->read());
  h.destination = frame_classes;
  h.id = 0;
  ASSERT_TRUE(again->write_frame(h, {}));
  ASSERT_TRUE(a.wait_down("b", 5s, 3));
  EXPECT_EQ(a.downs["b"][2].code, "bad_credit") << "no such frame class";
}

TEST_F(net_refusal, violations_of_stream_rules_or_the_window_end_the_connection) {
  constexpr std::uint64_t MiB = 1 << 20;
  const bytes piece = pattern(MiB, 1);
  std::size_t times = 0;
  const auto ended_by = [&](const std::vector<frame_header>& chunks) {
    const auto b = std::make_unique<raw_client>(a.port);
    EXPECT_TRUE(b->handshake(good("b")) && b->greet("b") && b->read() && b->read());
    for (const auto& h : chunks)
      if (!b->write_frame(h, piece)) break;
    EXPECT_TRUE(a.wait_down("b", 5s, ++times));
    return a.downs["b"].back().code;
  };
  EXPECT_EQ(ended_by({{1, 0, 0, 0, 1, 2 * MiB, 9}}), "bad_stream");
  EXPECT_EQ(ended_by({{1, 0, 0, 0, 1, 2 * MiB, 0}}), "bad_stream") << "several chunks without a stream";
  EXPECT_EQ(ended_by({{1, 0, 0, 0, 1, MiB, 1, true}}), "bad_chunk") << "continues a frame that has not begun";
  EXPECT_EQ(ended_by({{1, 0, 0, 0, 1, 2 * MiB, 1}, {1, 0, 0, 0, 2, 2 * MiB, 1}}), "bad_chunk")
      << "two frames at once in one stream";
  EXPECT_EQ(ended_by({{1, 0, 0, 0, 1, 2 * MiB, 1}, {1, 0, 0, 0, 1, MiB, 2, true}}), "bad_chunk") << "continues in another stream";
  std::vector<frame_header> many;
  for (std::uint8_t s = 1; s <= max_streams; ++s) many.push_back({1, 0, 0, 0, s, 20 * MiB, s});
  EXPECT_EQ(ended_by(many), "credit_exceeded") << "unfinished frames are charged to the window";
  EXPECT_TRUE(a.frames.empty());
  const auto b = std::make_unique<raw_client>(a.port);
  ASSERT_TRUE(b->handshake(good("b")) && b->greet("b") && b->read() && b->read());
  for (const bool second : {false, true})
    for (std::uint8_t s = 1; s <= 2; ++s) ASSERT_TRUE(b->write_frame({1, 0, 0, 0, s, (second ? 1 : 2) * MiB, s, second}, piece));
  ASSERT_TRUE(a.wait_frames(2)) << "interleaved";
  for (const auto& r : a.frames)
    EXPECT_TRUE(r.f.bytes == 2 * MiB && std::equal(piece.begin(), piece.end(), r.f.payload.get() + MiB));
}

TEST_F(net_refusal, a_peer_whose_socket_is_reset_is_down_within_three_seconds) {
  const auto b = authenticated();
  b->hang_up();
  ASSERT_TRUE(a.wait_down("b", 3s));
  EXPECT_EQ(a.downs["b"][0].code, "connection_lost");
  still_serving();
}

TEST_F(net_refusal, a_peer_that_falls_silent_is_down_within_five_seconds) {
  const auto b = authenticated();
  const auto begun = clock::now();
  ASSERT_TRUE(a.net->send("b", frame_of(pattern(8 << 20, 1)))) << "more than its socket buffers";
  ASSERT_TRUE(a.wait_down("b", 5s));
  EXPECT_GE(clock::now() - begun, 1900ms);
  EXPECT_EQ(a.downs["b"][0].code, "peer_silent");
  still_serving();
}

TEST_F(net_refusal, a_slow_peer_stays_up_while_bytes_arrive) {
  const auto b = authenticated();
  bytes header(header_bytes);
  const bytes payload = pattern(64, 1);
  seal_header({1, 0, 0, 0, 0, payload.size()}, std::array<std::span<const std::byte>, 1>{payload},
              std::span<std::byte, header_bytes>(header.data(), header_bytes));
  ASSERT_TRUE(b->write(header));
  // One frame, a few bytes at a time, over more than three seconds.
  for (std::size_t at = 0; at < payload.size(); at += 16) {
    EXPECT_FALSE(a.wait_down("b", 800ms)) << "at byte " << at;
    ASSERT_TRUE(b->write(std::span(payload).subspan(at, 16)));
  }
  EXPECT_TRUE(a.wait_frames(1, 2s));
}

}  // namespace
}  // namespace troupe::net
