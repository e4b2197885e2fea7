// Random storms keep to their shape, have everything that the shape allows, and repeat.
#include "runtime/sim/storm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace troupe::sim {
namespace {

using std::chrono::seconds;

storm_shape wide_shape() {
  storm_shape s;
  s.nodes = 5;
  s.kinds.push_back(fault_kind::partition);
  return s;
}

TEST(random_storm, stays_within_its_shape_and_draws_everything_it_allows) {
  const auto shape = wide_shape();
  std::map<fault_kind, int> kinds;
  std::set<std::uint32_t> hit;
  std::set<std::size_t> sizes;
  int one_way = 0, both_ways = 0, inward = 0, single = 0, forever = 0, close = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    const auto list = random_storm(seed, shape);
    EXPECT_EQ(list, random_storm(seed, shape));
    EXPECT_EQ(draw_schedule(to_model(list), shape.nodes, seed), list) << "a file can repeat it";
    sizes.insert(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto& h = list[i];
      ++kinds[h.kind];
      hit.insert(h.nodes.begin(), h.nodes.end());
      EXPECT_GE(h.at, shape.from);
      EXPECT_LE(h.at, shape.from + shape.span);
      ASSERT_TRUE(!h.nodes.empty() && h.nodes.back() < shape.nodes);
      if (i > 0) close += h.at - list[i - 1].at < seconds(2) ? 1 : 0;
      if (h.length < duration{}) {
        ++forever;
        EXPECT_NE(h.nodes.front(), 0u) << "the coordinator's daemon starts again";
      }
      if (h.kind != fault_kind::cut) continue;
      (h.both_ways ? both_ways : one_way) += 1;
      inward += h.nodes.size() > 1 ? 1 : 0;
      single += h.nodes.size() == 1 && h.to.size() == 1 ? 1 : 0;
      EXPECT_TRUE(cuts(h, h.plane == fault_plane::both ? fault_plane::data : h.plane, h.nodes.front(),
                       h.to.empty() ? (h.nodes.front() + 1) % shape.nodes : h.to.front()));
    }
  }
  EXPECT_EQ(kinds.size(), shape.kinds.size());
  EXPECT_GT(kinds[fault_kind::kill], kinds[fault_kind::lose]);
  EXPECT_EQ(hit.size(), 5u);
  EXPECT_EQ(sizes, (std::set<std::size_t>{1, 2, 3, 4}));
  for (const int n : {one_way, both_ways, inward, single, forever, close}) EXPECT_GT(n, 50);
}

TEST(random_storm, spares_the_coordinators_node_and_kinds_that_are_left_out) {
  auto shape = wide_shape();
  shape.coordinator = false;
  shape.all_return = true;
  std::erase(shape.kinds, fault_kind::drain);
  for (std::uint64_t seed = 1; seed <= 500; ++seed)
    for (const auto& h : random_storm(seed, shape)) {
      EXPECT_NE(h.kind, fault_kind::drain);
      EXPECT_GE(h.length, duration{});
      const bool spared = h.nodes.front() != 0 || (h.kind == fault_kind::cut && h.to.size() == 1 && h.to.front() != 0);
      EXPECT_TRUE(spared) << text_of(h);
    }
  shape.nodes = 1;
  EXPECT_TRUE(random_storm(1, shape).empty());
  shape.coordinator = true;
  EXPECT_FALSE(random_storm(1, shape).empty());
  shape.kinds = {fault_kind::cut};
  EXPECT_TRUE(random_storm(1, shape).empty()) << "a lone node cannot be cut off";
}

TEST(random_storm, no_more_nodes_are_away_at_once_than_allowed) {
  storm_shape shape;
  shape.nodes = 6;
  shape.kinds = {fault_kind::kill, fault_kind::lose, fault_kind::stop};
  shape.most = 12;
  shape.span = seconds(120);
  std::size_t unlimited = 0;
  for (const std::uint32_t most : {0u, 1u, 2u})
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
      shape.most_away = most;
      const auto list = random_storm(seed, shape);
      EXPECT_FALSE(list.empty());
      for (const auto& h : list) {
        std::set<std::uint32_t> away;
        for (const auto& other : list)
          if (other.at <= h.at && (other.length < duration{} || h.at < other.at + other.length + seconds(10)))
            away.insert(other.nodes[0]);
        if (most == 0)
          unlimited = std::max(unlimited, away.size());
        else
          ASSERT_LE(away.size(), most) << "seed " << seed;
      }
    }
  EXPECT_GT(unlimited, 2u);
}

}  // namespace
}  // namespace troupe::sim
