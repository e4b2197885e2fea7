// The greeting of a connection, and addresses.
#include "runtime/node/net/hello.hpp"

#include <gtest/gtest.h>

#include <span>
#include <tuple>
#include <vector>

#include "runtime/node/net/transport.hpp"

namespace troupe::net {
namespace {

TEST(net_hello, round_trips_and_every_truncation_is_an_error) {
  hello h;
  h.incarnation = 7;
  h.window = 1 << 20;
  h.max_frame = 1 << 30;
  h.cluster = "c";
  h.node = "n1";
  h.wanted = "n2";
  const auto raw = encode_hello(h);
  const auto back = decode_hello(raw);
  ASSERT_TRUE(back);
  EXPECT_EQ(std::tie(back->incarnation, back->window, back->max_frame, back->cluster, back->node, back->wanted),
            std::tie(h.incarnation, h.window, h.max_frame, h.cluster, h.node, h.wanted));
  for (std::size_t n = 0; n < raw.size(); ++n) EXPECT_FALSE(decode_hello(std::span(raw).first(n)));
  h.protocol = protocol_version + 1;
  EXPECT_EQ(decode_hello(encode_hello(h)).error().code, "protocol_version");
  const coded_error e = decode_refusal(encode_refusal({"wrong_cluster", "x\ny\x1b[0m"}));
  EXPECT_EQ(e.code, "wrong_cluster");
  EXPECT_EQ(e.message, "x?y?[0m");
}

TEST(net_address, is_parsed_as_host_and_port) {
  EXPECT_EQ(parse_address("10.0.0.1:4000")->port, 4000);
  EXPECT_EQ(parse_address("[::1]:0")->host, "::1");
  EXPECT_EQ(to_string(*parse_address("[::1]:80")), "[::1]:80");
  for (const char* bad : {"", ":1", "a", "a:", "a:x", "a:65536", "::1:80", "[]:1", "[::1:80", "a b:1", "a:-1", "a:1x"})
    EXPECT_EQ(parse_address(bad).has_value(), false) << bad;
}

}  // namespace
}  // namespace troupe::net
