// Properties of the TCP transport alone: heartbeats, names and addresses, certificates,
// descriptors. transport_conformance_test.cpp tests the guarantees of all transports.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/node/net_support.hpp"

namespace troupe::net {
namespace {

using namespace testing;
using namespace std::chrono_literals;

bool arrived_as_sent(const frame& f, const bytes& sent) {
  return f.payload && f.bytes == sent.size() && std::equal(sent.begin(), sent.end(), f.payload.get());
}

TEST(net_transport, heartbeats_keep_an_idle_connection) {
  const auto fast = [](tcp_options& o) { o.heartbeat = 50ms, o.silence = 200ms; };
  node a("a", fast), b("b", fast);
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  EXPECT_FALSE(a.wait_down("b", 1500ms)) << "seven times the silence limit";
  EXPECT_FALSE(b.wait_down("a", 1ms));
  EXPECT_TRUE(a.net->send("b", frame_of(pattern(10, 1))));
  EXPECT_TRUE(b.wait_frames(1));
  EXPECT_EQ(b.stats_of("a").frames_in, 1U) << "heartbeats are not counted as traffic";
}

TEST(net_transport, host_names_are_resolved) {
  node a("a"), b("b");
  const auto port = b.net->listen({"localhost", 0});
  ASSERT_TRUE(port) << port.error().message;
  a.net->connect("b", {"localhost", *port}, 10s);
  EXPECT_TRUE(a.wait_up("b"));
}

TEST(net_transport, listen_errors_have_codes) {
  node a("a"), b("b");
  const std::uint16_t port = a.listen();
  EXPECT_EQ(b.net->listen({"127.0.0.1", port}).error().code, "address_in_use");
  EXPECT_EQ(b.net->listen({"192.0.2.1", 0}).error().code, "address_unavailable");
  EXPECT_EQ(b.net->listen({"0.0.0.0", 0}).error().code, "wildcard_address");
  EXPECT_EQ(b.net->listen({"::", 0}).error().code, "wildcard_address");
  EXPECT_EQ(b.net->listen({"no such host", 0}).error().code, "bad_address");
  EXPECT_TRUE(b.net->listen({"127.0.0.1", 0}));
  EXPECT_EQ(b.net->listen({"127.0.0.1", 0}).error().code, "already_listening");
}

TEST(net_transport, a_large_frame_in_flight_is_not_silence) {
  const auto fast = [](tcp_options& o) { o.heartbeat = 50ms, o.silence = 250ms, o.window = std::uint64_t{1} << 30; };
  node a("a", fast), b("b", fast);
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  ASSERT_TRUE(a.net->send("b", frame_of(pattern(256 << 20, 3))));
  ASSERT_TRUE(b.wait_frames(1));
  EXPECT_TRUE(a.downs.empty() && b.downs.empty());
}

TEST(net_transport, payloads_outlive_the_transport_and_all_descriptors_are_closed) {
  certificates();
  const std::size_t before = open_descriptors();
  std::vector<frame> kept;
  for (int round = 0; round < 5; ++round) {
    node a("a"), b("b");
    a.listen();
    b.listen();
    ASSERT_TRUE(join(a, b, "a", "b"));
    ASSERT_TRUE(a.net->send("b", frame_of(pattern(100000, 1))));
    kept.push_back(b.take());
    a.net->connect("c", {"127.0.0.1", 1}, 10s);  // still dialling when it closes
    const auto begun = clock::now();
    a.net->close();
    b.net->close();
    EXPECT_LT(clock::now() - begun, 2s);
  }
  EXPECT_EQ(open_descriptors(), before);
  for (const frame& f : kept) EXPECT_TRUE(arrived_as_sent(f, pattern(100000, 1)));
}

TEST(net_transport, options_and_certificates_are_checked_before_anything_starts) {
  const auto code = [](const std::function<void(tcp_options&)>& adjust) {
    tcp_options o;
    const auto dir = certificates() / "good";
    o.cluster = "troop", o.node = "a", o.ca = dir / "ca.pem", o.certificate = dir / "a.pem", o.key = dir / "a.key";
    adjust(o);
    const auto t = make_tcp_transport(o, {});
    return t ? std::string() : t.error().code;
  };
  EXPECT_EQ(code([](tcp_options&) {}), "");
  EXPECT_EQ(code([](tcp_options& o) { o.node = "../a"; }), "bad_option");
  EXPECT_EQ(code([](tcp_options& o) { o.node = "client"; }), "bad_option");
  EXPECT_EQ(code([](tcp_options& o) { o.window = 0; }), "bad_option");
  EXPECT_EQ(code([](tcp_options& o) { o.node = "b"; }), "name_mismatch");
  EXPECT_EQ(code([](tcp_options& o) { o.key = certificates() / "good/b.key"; }), "key_mismatch");
  EXPECT_EQ(code([](tcp_options& o) { o.ca = certificates() / "other/ca.pem"; }), "wrong_ca");
  EXPECT_EQ(code([](tcp_options& o) { o.key = "/nonexistent"; }), "certificate_missing");
  const auto good = certificates() / "good";
  const auto other = check_certificate(certificates() / "other/ca.pem", good / "a.pem", good / "a.key", "a");
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("a.pem is signed by another CA than "), std::string::npos) << other.error().message;
}

}  // namespace
}  // namespace troupe::net
