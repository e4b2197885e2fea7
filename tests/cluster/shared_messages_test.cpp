// Daemons of one machine pass large tensors in shared buffers. Large messages without tensors are
// sent as bytes, and a frame that cannot be decoded ends the connection with its sender.
#include <nlohmann/json.hpp>

#include "runtime/messages/wire.hpp"
#include "tests/cluster/processes.hpp"
#include "tests/node/net_support.hpp"

namespace troupe::testing_cluster {
namespace {

class cluster_shared_messages : public cluster_test {
 protected:
  static std::uint64_t dropped(const repl_reply& status, const char* why) {
    return nlohmann::json::parse(status.text).at("dropped").at(why).get<std::uint64_t>();
  }
};

// A gossip worker that receives nothing from the others adds one bin per step to its histogram of
// staleness: after 1,000 steps the histograms of six parameters have 48 KB.
TEST_F(cluster_shared_messages, a_job_with_histograms_larger_than_a_shared_buffer_ends_well) {
  make_cluster(3);
  start_all();
  auto set = workers(3, 3);
  set.emplace_back("topology={worker_groups=3,workers_per_group=1,server_groups=1}");
  set.emplace_back("train.sync={mode=\"gossip\",every=1000000}");
  set.emplace_back("train.finish={steps=1000}");
  const auto r = run(tiny_job(), set);
  ASSERT_FALSE(r.events.empty());
  EXPECT_TRUE(r.events.back().event.is<done_event>()) << message_of(r.events.back().event);
  EXPECT_EQ(r.value("steps"), 1000);
  EXPECT_EQ(r.count("staleness"), 1U);
  for (const auto* node : {"n1", "n2", "n3"}) EXPECT_EQ(dropped(ask(node, "status", true), "unreadable"), 0U) << node;
}

// The test acts as n2, with its certificate.
TEST_F(cluster_shared_messages, a_peer_whose_message_cannot_be_decoded_is_disconnected) {
  make_cluster(2);
  start("n1");
  const auto port = data_port("n1");
  net::testing::raw_client c(port);
  ASSERT_TRUE(c.handshake(folder_ / "certs" / "n2"));
  ASSERT_TRUE(c.greet("n2", [](net::hello& h) { h.cluster = "lab", h.wanted = "n1"; }));
  ASSERT_TRUE(daemon("n1").wait_log("data connection with n2", 10s));
  net::frame_header h;
  h.type = 1;
  ASSERT_TRUE(c.write_frame(h, net::testing::bytes(100)));
  EXPECT_TRUE(daemon("n1").wait_log(
      "n2 sent a frame that cannot be decoded (type 1, 100 bytes, 0 of them shared): wire version is 0, must be " +
          std::to_string(wire_version),
      10s))
      << daemon("n1").log();
  EXPECT_TRUE(c.closed_within(5s));
  EXPECT_EQ(dropped(ask("n1", "status", true), "unreadable"), 1U);
  EXPECT_NE(ask("n1", "status").text.find("1 message from other nodes could not be decoded"), std::string::npos);
}

}  // namespace
}  // namespace troupe::testing_cluster
