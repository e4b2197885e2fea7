// The fixed tree over packets (docs/determinism.md).
#include "ops/tree/packet_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace troupe {
namespace {

std::string brackets(std::string a, std::string b) { return "(" + a + "+" + b + ")"; }

// The sum as an expression, from a list of blocks in the given order.
std::string expression(std::uint32_t packets, const std::vector<tree_node>& order, const std::vector<std::string>& values) {
  packet_tree<std::string> tree(packets);
  for (std::size_t i = 0; i < order.size(); ++i)
    EXPECT_TRUE(tree.add(order[i], values[i], {}, [](std::string a, std::string b) { return brackets(a, b); }).second);
  auto* root = tree.find(root_of(packets));
  return root ? *root : "incomplete";
}

std::string part(std::uint32_t packets, tree_node n) {
  packet_tree<std::string> tree(packets);
  for (auto p = n.first; p < std::min(n.first + n.span, packets); ++p)
    tree.add({p, 1}, std::to_string(p), {}, [](std::string a, std::string b) { return brackets(a, b); });
  return *tree.find(n);
}

TEST(packet_tree, brackets_are_those_of_a_binary_tree) {
  EXPECT_EQ(part(4, root_of(4)), "((0+1)+(2+3))");
  EXPECT_EQ(part(3, root_of(3)), "((0+1)+2)");
  EXPECT_EQ(part(6, root_of(6)), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(part(1, root_of(1)), "0");
}

TEST(packet_tree, cover_is_maximal_aligned_blocks) {
  EXPECT_EQ(cover(0, 4, 4), (std::vector<tree_node>{{0, 4}}));
  EXPECT_EQ(cover(1, 3, 4), (std::vector<tree_node>{{1, 1}, {2, 2}}));
  EXPECT_EQ(cover(2, 1, 3), (std::vector<tree_node>{{2, 2}}));
  EXPECT_EQ(cover(4, 2, 6), (std::vector<tree_node>{{4, 4}}));
  EXPECT_EQ(cover(0, 3, 3), (std::vector<tree_node>{{0, 4}}));
  EXPECT_EQ(cover(0, 3, 8), (std::vector<tree_node>{{0, 2}, {2, 1}}));
  EXPECT_EQ(cover(3, 5, 8), (std::vector<tree_node>{{3, 1}, {4, 4}}));
  EXPECT_EQ(cover(0, 6, 6), (std::vector<tree_node>{{0, 8}})) << "the root, even if the packets end before it";
  EXPECT_EQ(cover(3, 3, 6), (std::vector<tree_node>{{3, 1}, {4, 4}}));
  EXPECT_EQ(cover(0, 1, 1), (std::vector<tree_node>{{0, 1}}));
  EXPECT_EQ(cover(2, ~0u, 4), (std::vector<tree_node>{{2, 2}})) << "only existing packets";
  EXPECT_TRUE(cover(1, 0, 4).empty());
}

TEST(packet_tree, cover_has_every_packet_once_and_is_maximal) {
  for (std::uint32_t packets = 1; packets <= 33; ++packets)
    for (std::uint32_t first = 0; first < packets; ++first)
      for (std::uint32_t count = 1; first + count <= packets; ++count) {
        auto next = first;
        const auto nodes = cover(first, count, packets);
        for (const auto& n : nodes) {
          ASSERT_TRUE(well_formed(n, packets));
          EXPECT_EQ(n.first, next) << first << "+" << count << " of " << packets;
          next = std::min(n.first + n.span, packets);
        }
        EXPECT_EQ(next, first + count);
        for (std::size_t i = 0; i + 1 < nodes.size(); ++i) {
          const auto sibling = normal({nodes[i].first ^ nodes[i].span, nodes[i].span}, packets);
          EXPECT_FALSE(sibling == nodes[i + 1] && sibling.first > nodes[i].first) << first << "+" << count << " of " << packets;
        }
      }
}

// The other two summation orders: packets computed in one call (ops/packet_sum.hpp) split the root
// recursively; ranks of the exchange are all present at once (exchange/hub/arithmetic.cpp).
std::string halved(std::uint32_t first, std::uint32_t packets) {
  if (packets == 1) return std::to_string(first);
  const auto left = static_cast<std::uint32_t>(left_of(packets));
  return brackets(halved(first, left), halved(first + left, packets - left));
}

// Performs every addition of the tree over `packets` values: join(a, b) adds the value at index b
// to that at index a.
template <class Join>
void join_all(std::size_t packets, Join&& join) {
  for (std::size_t span = 1; span < packets; span *= 2)
    for (std::size_t first = 0; first + span < packets; first += 2 * span) join(first, first + span);
}

TEST(packet_tree, other_summation_code_uses_the_same_brackets) {
  for (std::uint32_t packets = 1; packets <= 33; ++packets) {
    std::vector<std::string> all;
    for (std::uint32_t p = 0; p < packets; ++p) all.push_back(std::to_string(p));
    join_all(packets, [&](std::size_t into, std::size_t from) { all[into] = brackets(all[into], all[from]); });
    EXPECT_EQ(all[0], part(packets, root_of(packets)));
    EXPECT_EQ(halved(0, packets), part(packets, root_of(packets)));
  }
}

// The brackets do not depend on which worker computes a part, or on the order of arrival.
TEST(packet_tree, any_workers_and_any_order_give_the_same_expression) {
  std::mt19937 rng(7);
  for (std::uint32_t packets = 1; packets <= 19; ++packets) {
    const auto want = part(packets, root_of(packets));
    for (std::uint32_t workers = 1; workers <= packets; ++workers) {
      std::vector<tree_node> blocks;
      std::uint32_t first = 0;
      for (std::uint32_t w = 0; w < workers; ++w) {
        const auto count = packets / workers + (w < packets % workers ? 1 : 0);
        for (auto n : cover(first, count, packets)) {
          EXPECT_TRUE(well_formed(n, packets));
          blocks.push_back(n);
        }
        first += count;
      }
      std::shuffle(blocks.begin(), blocks.end(), rng);
      std::vector<std::string> values;
      for (auto n : blocks) values.push_back(part(packets, n));
      EXPECT_EQ(expression(packets, blocks, values), want) << packets << " packets, " << workers << " workers";
    }
  }
}

TEST(packet_tree, duplicate_is_refused_even_inside_a_joined_node) {
  packet_tree<std::string> tree(4);
  auto join = [](std::string a, std::string b) { return brackets(a, b); };
  EXPECT_TRUE(tree.add({0, 1}, "0", {}, join).second);
  EXPECT_FALSE(tree.add({0, 1}, "0", {}, join).second);
  EXPECT_TRUE(tree.add({1, 1}, "1", {}, join).second);
  EXPECT_FALSE(tree.add({1, 1}, "1", {}, join).second);
  EXPECT_FALSE(tree.add({0, 2}, "x", {}, join).second);
  EXPECT_TRUE(tree.add({2, 2}, "y", {}, join).second);
  EXPECT_EQ(*tree.find(root_of(4)), "((0+1)+y)");
}

// A node is refused if it shares packets with one that was added, whatever has been joined.
TEST(packet_tree, refuses_what_overlaps_an_added_node_and_nothing_else) {
  std::mt19937 random(5);
  std::uint64_t refused = 0;
  for (int run = 0; run < 500; ++run) {
    const auto packets = 1 + static_cast<std::uint32_t>(random() % 70);
    packet_tree<int> tree(packets);
    std::vector<bool> have(packets, false);
    for (int i = 0; i < 80; ++i) {
      tree_node n{static_cast<std::uint32_t>(random() % packets), 1u << random() % 4};
      n.first -= n.first % n.span;
      if (!well_formed(n, packets)) continue;
      const auto end = std::min(n.first + n.span, packets);
      const bool overlaps = std::find(have.begin() + n.first, have.begin() + end, true) != have.begin() + end;
      ASSERT_EQ(tree.has(n), overlaps) << "run " << run << ", (" << n.first << ", " << n.span << ") of " << packets;
      ASSERT_EQ(tree.add(n, 0, {}, [](int, int) { return 0; }).second, !overlaps);
      if (!overlaps) std::fill(have.begin() + n.first, have.begin() + end, true);
      refused += overlaps;
    }
  }
  EXPECT_GT(refused, 0u);
}

TEST(packet_tree, a_worker_stops_at_the_blocks_it_sends) {
  packet_tree<std::string> tree(8);
  auto join = [](std::string a, std::string b) { return brackets(a, b); };
  const std::vector<tree_node> stop{{0, 2}, {2, 1}};
  tree.add({0, 1}, "0", stop, join);
  EXPECT_EQ(tree.add({1, 1}, "1", stop, join).first, (tree_node{0, 2}));
  EXPECT_EQ(tree.add({2, 1}, "2", stop, join).first, (tree_node{2, 1}));
  EXPECT_EQ(tree.size(), 2u);
}

TEST(packet_tree, malformed_nodes_are_recognised) {
  EXPECT_FALSE(well_formed({0, 3}, 8));
  EXPECT_FALSE(well_formed({1, 2}, 8));
  EXPECT_FALSE(well_formed({8, 1}, 8));
  EXPECT_FALSE(well_formed({0, 16}, 8));
  EXPECT_FALSE(well_formed({0, 0}, 8));
  EXPECT_TRUE(well_formed({4, 4}, 6));
}

}  // namespace
}  // namespace troupe
