// The controller's account of nodes, and the clock that notices that its daemon was suspended.
#include <gtest/gtest.h>

#include "runtime/cluster/controller/membership.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "tests/error_text.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;

class controller_membership : public testing::Test {
 protected:
  static cluster_spec two_nodes() {
    cluster_spec c;
    for (const char* n : {"n1", "n2"}) {
      node_spec s;
      s.name = n;
      c.nodes.push_back(s);
    }
    return c;
  }
  static join of(std::uint64_t incarnation) { return {"127.0.0.1:2", "same", protocol, abi_version, incarnation}; }

  membership nodes_{two_nodes(), "n1"};
  membership::instant now_ = membership::instant{} + 1000s;
};

TEST_F(controller_membership, a_node_is_absent_until_it_joins) {
  EXPECT_TRUE(nodes_.at("n2").absent());
  EXPECT_FALSE(nodes_.at("n2").usable());
  nodes_.joined("n2", of(1), now_);
  EXPECT_FALSE(nodes_.at("n2").absent());
  EXPECT_TRUE(nodes_.at("n2").usable());
  EXPECT_EQ(nodes_.at("n2").since, now_);
}

TEST_F(controller_membership, a_name_that_the_cluster_file_lacks_gets_no_entry) {
  nodes_.joined("x", of(1), now_);
  nodes_.reported("x", {}, now_);
  nodes_.hangs("x");
  nodes_.connected("x", 1);
  EXPECT_FALSE(nodes_.leaves("x"));
  EXPECT_FALSE(nodes_.disconnected("x", now_));
  EXPECT_FALSE(nodes_.knows("x"));
  EXPECT_FALSE(nodes_.connection_of("x"));
  EXPECT_EQ(nodes_.all().size(), 2u);
  EXPECT_TRUE(nodes_.at("x").absent());
}

TEST_F(controller_membership, a_join_is_refused_for_the_first_reason_that_its_node_can_mend) {
  EXPECT_TRUE(nodes_.admit("n2", of(1)));
  EXPECT_NE(test::error_text(nodes_.admit("x", of(1))).find("no node named x: add its [[node]] table"), std::string::npos);
  auto other = of(1);
  ++other.protocol;
  EXPECT_NE(test::error_text(nodes_.admit("x", other)).find("control protocol"), std::string::npos);
  ++other.abi;
  EXPECT_NE(test::error_text(nodes_.admit("n2", other)).find("another build"), std::string::npos);
}

TEST_F(controller_membership, a_life_is_counted_when_another_incarnation_joins) {
  nodes_.joined("n2", of(7), now_);
  nodes_.joined("n2", of(7), now_);
  EXPECT_EQ(nodes_.at("n2").lives, 1u);
  nodes_.joined("n2", of(8), now_);
  EXPECT_EQ(nodes_.at("n2").lives, 2u);
}

TEST_F(controller_membership, a_failure_is_counted_once_when_a_hung_node_is_lost) {
  nodes_.joined("n2", of(1), now_);
  nodes_.hangs("n2");
  EXPECT_FALSE(nodes_.at("n2").usable());
  EXPECT_TRUE(nodes_.disconnected("n2", now_ + 1s));
  EXPECT_EQ(nodes_.at("n2").failures, 1u);
  EXPECT_EQ(nodes_.at("n2").since, now_ + 1s);
  nodes_.joined("n2", of(2), now_ + 2s);
  EXPECT_TRUE(nodes_.at("n2").usable());
  EXPECT_TRUE(nodes_.disconnected("n2", now_ + 3s));
  EXPECT_EQ(nodes_.at("n2").failures, 2u);
  EXPECT_FALSE(nodes_.disconnected("n2", now_ + 4s));
  EXPECT_EQ(nodes_.at("n2").failures, 2u);
}

TEST_F(controller_membership, a_node_is_usable_again_when_its_hung_task_has_ended) {
  nodes_.joined("n2", of(1), now_);
  nodes_.hangs("n2");
  nodes_.recovers("n2");
  EXPECT_TRUE(nodes_.at("n2").usable());
}

TEST_F(controller_membership, a_node_that_leaves_is_not_usable_until_it_joins_anew) {
  nodes_.joined("n2", of(1), now_);
  EXPECT_TRUE(nodes_.leaves("n2"));
  EXPECT_FALSE(nodes_.at("n2").usable());
  nodes_.disconnected("n2", now_);
  EXPECT_TRUE(nodes_.at("n2").leaving);
  nodes_.joined("n2", of(2), now_);
  EXPECT_TRUE(nodes_.at("n2").usable());
}

TEST_F(controller_membership, reports_are_dropped_when_the_node_joins_anew) {
  nodes_.joined("n2", of(1), now_);
  report r;
  r.tcp_in = 5;
  nodes_.reported("n2", r, now_ + 1s);
  EXPECT_EQ(nodes_.at("n2").last.tcp_in, 5u);
  EXPECT_EQ(nodes_.at("n2").reported, now_ + 1s);
  nodes_.joined("n2", of(2), now_ + 2s);
  EXPECT_EQ(nodes_.at("n2").last.tcp_in, 0u);
  EXPECT_EQ(nodes_.at("n2").reported, membership::instant{});
}

TEST_F(controller_membership, a_connection_has_its_incarnation_before_the_node_joins) {
  nodes_.connected("n2", 9);
  EXPECT_EQ(nodes_.connection_of("n2"), 9u);
  EXPECT_FALSE(nodes_.disconnected("n2", now_));
  EXPECT_FALSE(nodes_.connection_of("n2"));
}

TEST_F(controller_membership, a_suspension_is_seen_before_and_shortly_after_the_first_tick) {
  suspension_clock clock;
  EXPECT_FALSE(clock.suspended(now_));
  clock.tick(now_);
  EXPECT_FALSE(clock.suspended(now_ + 3s));
  EXPECT_EQ(clock.suspended(now_ + 9s), 9s);
  clock.tick(now_ + 10s);
  EXPECT_EQ(clock.suspended(now_ + 10s), 10s);
  clock.tick(now_ + 12s);
  EXPECT_EQ(clock.suspended(now_ + 14s), 10s);
  clock.tick(now_ + 14s);
  EXPECT_FALSE(clock.suspended(now_ + 15s));
}

}  // namespace
}  // namespace troupe::control
