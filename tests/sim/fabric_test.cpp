// Transfer times over links, compared with times computed by hand.
#include "runtime/sim/fabric.hpp"

#include <gtest/gtest.h>

#include "tests/sim/toy_roles.hpp"

namespace troupe::sim {
namespace {

using namespace toy;

network_model star(double rate, std::int64_t latency, bool cut_through = true) {
  network_model n;
  n.fabric = fabric_kind::star;
  n.bytes_per_second = rate;
  n.latency = duration(latency);
  n.cut_through = cut_through;
  return n;
}

// 936 bytes and the header: 1000 bytes, which take 1000 ns at 1 GB/s.
constexpr std::int64_t elements = 234;

TEST(fabric, one_message_passes_a_star_in_the_computed_time) {
  // Cut-through: two latencies and one serialisation.
  cluster c(2, star(1e9, 10));
  c.talk(0, 1, elements);
  EXPECT_EQ(c.run(), (arrivals{{1, 0, 1020}}));
  // Store and forward: one serialisation per link.
  cluster s(2, star(1e9, 10, false));
  s.talk(0, 1, elements);
  EXPECT_EQ(s.run(), (arrivals{{1, 0, 2020}}));
}

TEST(fabric, egress_link_serves_messages_one_after_the_other) {
  cluster c(4, star(1e9, 10));
  for (int to = 1; to < 4; ++to) c.talk(0, to, elements);
  EXPECT_EQ(c.run(), (arrivals{{1, 0, 1020}, {2, 0, 2020}, {3, 0, 3020}}));
}

TEST(fabric, ingress_link_is_shared_by_senders) {
  cluster c(4, star(1e9, 10));
  for (int from = 1; from < 4; ++from) c.talk(from, 0, elements);
  EXPECT_EQ(c.run(), (arrivals{{0, 1, 1020}, {0, 2, 2020}, {0, 3, 3020}}));
}

TEST(fabric, full_duplex_directions_do_not_delay_each_other) {
  cluster c(2, star(1e9, 10));
  c.talk(0, 1, elements);
  c.talk(1, 0, elements);
  EXPECT_EQ(c.run(), (arrivals{{0, 1, 1020}, {1, 0, 1020}}));
}

TEST(fabric, half_duplex_directions_share_a_link) {
  auto n = star(1e9, 10);
  n.full_duplex = false;
  cluster c(3, n);
  c.talk(0, 1, elements);
  c.talk(2, 0, elements);  // waits at the switch until node 1's link has sent
  EXPECT_EQ(c.run(), (arrivals{{1, 0, 1020}, {0, 2, 2010}}));
  EXPECT_EQ(c.world().wires().name_of(0), "n1");
}

TEST(fabric, slow_ingress_delays_the_tail) {
  auto n = star(1e9, 10);
  n.node_bytes_per_second = {{1, 0.5e9}};
  cluster c(3, n);
  c.talk(0, 1, elements);
  c.talk(0, 2, elements);  // the egress is free again after 1000 ns: the queue is in the switch
  EXPECT_EQ(c.run(), (arrivals{{1, 0, 2020}, {2, 0, 2020}}));
}

TEST(fabric, messages_of_a_rack_share_its_uplink) {
  // Racks of two; an uplink has the bandwidth of one node (oversubscription 2).
  auto n = star(1e9, 10);
  n.fabric = fabric_kind::tree;
  n.rack = 2;
  n.oversubscription = 2;
  cluster c(6, n);
  c.talk(0, 1, elements);  // within the rack: two links
  c.talk(2, 4, elements);  // between racks: four links
  c.talk(3, 5, elements);  // the same uplink and downlink: queued behind it
  EXPECT_EQ(c.run(), (arrivals{{1, 0, 1020}, {4, 2, 1040}, {5, 3, 2040}}));
}

TEST(fabric, link_traffic_is_counted) {
  cluster c(3, star(1e9, 10));
  c.talk(0, 1, elements);
  c.talk(0, 2, elements);
  c.run();
  const auto& l = c.world().wires().links();
  EXPECT_EQ(l[0].messages, 2u);
  EXPECT_EQ(l[0].bytes, 2000u);
  EXPECT_EQ(l[0].busy, duration(2000));
  EXPECT_EQ(l[3].bytes, 1000u);
  EXPECT_EQ(c.world().wires().name_of(0), "n1 out");
  EXPECT_EQ(c.world().wires().name_of(3), "n2 in");
  EXPECT_EQ(c.world().links().at({0, 1}).messages, 1u);
}

TEST(fabric, jitter_keeps_the_order_of_a_pair_of_nodes) {
  auto n = star(1e9, 10);
  n.jitter = duration(100000);
  bool spread = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    cluster c(2, n, seed);
    for (int i = 0; i < 10; ++i) c.talk(0, 1, 1);
    const auto all = c.run();
    ASSERT_EQ(all.size(), 10u);
    for (std::size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i - 1].at, all[i].at);
    for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(c.steps_at(1)[i], i) << "seed " << seed;
    spread = spread || all.back().at > 50000;
  }
  EXPECT_TRUE(spread);
}

}  // namespace
}  // namespace troupe::sim
