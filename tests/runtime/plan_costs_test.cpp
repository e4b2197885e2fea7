// The tree cover and the bytes derived from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/plan.hpp"
#include "runtime/reduce/packet_tree.hpp"
#include "tests/runtime/graph_fixture.hpp"

namespace troupe {
namespace {

using namespace graph_test;

std::vector<std::pair<std::uint32_t, std::uint32_t>> cover_of(std::uint32_t first, std::uint32_t count, std::uint32_t packets) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> out;
  for (auto r : tree_cover({first, count}, packets)) out.emplace_back(r.first, r.count);
  return out;
}

TEST(tree_cover, maximal_aligned_blocks) {
  using list = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  EXPECT_EQ(cover_of(0, 8, 8), (list{{0, 8}}));
  EXPECT_EQ(cover_of(0, 3, 8), (list{{0, 2}, {2, 1}}));
  EXPECT_EQ(cover_of(3, 5, 8), (list{{3, 1}, {4, 4}}));
  EXPECT_EQ(cover_of(0, 6, 6), (list{{0, 6}})) << "the root, cut off at the last packet";
  EXPECT_EQ(cover_of(3, 3, 6), (list{{3, 1}, {4, 2}}));
  EXPECT_EQ(cover_of(0, 1, 1), (list{{0, 1}}));
}

TEST(tree_cover, agrees_with_the_tree_that_adds) {
  for (std::uint32_t packets = 1; packets <= 33; ++packets)
    for (std::uint32_t first = 0; first < packets; ++first)
      for (std::uint32_t count = 1; first + count <= packets; ++count) {
        const auto mine = tree_cover({first, count}, packets);
        const auto theirs = cover(first, count, packets);
        ASSERT_EQ(mine.size(), theirs.size()) << first << "+" << count << " of " << packets;
        std::uint32_t next = first;
        for (std::size_t i = 0; i < mine.size(); ++i) {
          EXPECT_EQ(mine[i].first, theirs[i].first);
          EXPECT_EQ(mine[i].first, next);
          next += mine[i].count;
        }
        EXPECT_EQ(next, first + count);
      }
}

plan_costs costs(const job_spec& j, const std::vector<node_spec>& nodes, std::int64_t& parameters) {
  const auto g = std::get<model_graph>(try_graph(j));
  parameters = g.parameter_count;
  return cost_of(std::get<job_plan>(make_plan(j, g, nodes)), g, j);
}

TEST(plan_costs, one_node_sends_nothing) {
  std::int64_t n = 0;
  const auto c = costs(small_net(), nodes_named({"local"}), n);
  EXPECT_EQ(c.bytes_per_step.at("local"), 0);
  EXPECT_GT(c.memory.at("local"), static_cast<double>(4 * n));
}

TEST(plan_costs, two_workers_and_a_server_apart) {
  auto nodes = nodes_named({"s", "w0", "w1"});
  nodes[0].roles = {"coordinator", "server"};
  nodes[1].roles = nodes[2].roles = {"worker"};
  auto j = small_net(16, 8);
  j.topology.workers_per_group = 2;
  std::int64_t n = 0;
  auto c = costs(j, nodes, n);
  const double w = 4.0 * static_cast<double>(n);
  EXPECT_EQ(c.bytes_per_step.at("w0"), w) << "one block of the tree: packets 0-3";
  EXPECT_EQ(c.bytes_per_step.at("w1"), w);
  EXPECT_EQ(c.bytes_per_step.at("s"), 2 * w);
  j = small_net(18, 6);  // 0-2 and 3-5: two blocks each
  j.topology.workers_per_group = 2;
  j.precision = "f64";
  c = costs(j, nodes, n);
  EXPECT_EQ(c.bytes_per_step.at("w0"), 4 * w);
  EXPECT_EQ(c.bytes_per_step.at("w1"), 4 * w);
  EXPECT_EQ(c.bytes_per_step.at("s"), 4 * w);
}

TEST(plan_costs, a_local_shard_is_free) {
  auto j = small_net(16, 8);
  j.topology.workers_per_group = 2;
  j.topology.servers_per_group = 2;
  std::int64_t n = 0;
  const auto c = costs(j, nodes_named({"n0", "n1"}), n);
  // n0 sends its sums of shard 1's blocks and gives shard 0's weights to n1: together all parameters once.
  EXPECT_EQ(c.bytes_per_step.at("n0"), 4.0 * static_cast<double>(n));
  EXPECT_EQ(c.bytes_per_step.at("n1"), 4.0 * static_cast<double>(n));
}

}  // namespace
}  // namespace troupe
