// The fixed binary tree over the packets of a step (docs/determinism.md). Leaf i is packet i. Node
// (first, span), with span a power of two and first a multiple of it, covers the existing packets
// of [first, first + span). Its value is left + right. Every partial sum uses this bracketing, so
// the result has the same bits for any number of workers.
//
// The same tree orders the gradients of packets, sums of squares over groups of elements, packets
// that are computed together, and the ranks of the exchange. It therefore depends on neither
// tensors nor roles: pure arithmetic, in headers only.
//
// Invariants: a block is added once (a duplicate is refused). Every addition has the lower packets
// on its left. A block without right child, because the packets end, is the same node as its left
// child; `normal` returns the largest such span.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace troupe {

struct tree_node {
  std::uint32_t first = 0;
  std::uint32_t span = 1;
  friend auto operator<=>(const tree_node&, const tree_node&) = default;
};

// The root of the tree over `packets` packets.
inline tree_node root_of(std::uint32_t packets) { return {0, std::bit_ceil(packets == 0 ? 1u : packets)}; }

// The largest node that covers the same packets.
inline tree_node normal(tree_node n, std::uint32_t packets) {
  const auto root = root_of(packets);
  // While the node is a left child whose right sibling holds no packet, it is the same node as its
  // parent.
  while (n.span < root.span && (n.first & n.span) == 0 && n.first + n.span >= packets) n.span *= 2;
  return n;
}

inline bool well_formed(tree_node n, std::uint32_t packets) {
  return std::has_single_bit(n.span) && n.span <= root_of(packets).span && n.first % n.span == 0 && n.first < packets;
}

// The maximal aligned blocks of the existing packets in [first, first + count), in order. A worker
// sends these blocks.
inline std::vector<tree_node> cover(std::uint32_t first, std::uint32_t count, std::uint32_t packets) {
  std::vector<tree_node> out;
  const std::uint64_t end = std::min<std::uint64_t>(std::uint64_t{first} + count, packets);
  while (first < end) {
    tree_node best{first, 1};
    for (tree_node n{first, 1}; n.span <= root_of(packets).span && n.first % n.span == 0; n.span *= 2)
      if (std::min<std::uint64_t>(std::uint64_t{n.first} + n.span, packets) <= end) best = n;
    best = normal(best, packets);
    out.push_back(best);
    first = best.first + best.span;
  }
  return out;
}

// Number of packets in the root's left subtree. `packets` must be at least 2.
inline std::int64_t left_of(std::int64_t packets) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(packets)) / 2);
}

// Collects blocks and performs the additions that are possible. T is the type of the values
// (tensors); `join(left, right)` returns the parent's value.
template <class T>
class packet_tree {
 public:
  explicit packet_tree(std::uint32_t packets) : packets_(packets) {}

  // Adds a block and joins it with its sibling, if present, and so on upward, but not above a node
  // of `stop_at`: a worker stops at the blocks that it sends, a shard at the root. Returns the node
  // that now holds the value, and false if the block was already present.
  template <class Join>
  std::pair<tree_node, bool> add(tree_node n, T value, const std::vector<tree_node>& stop_at, Join&& join) {
    n = normal(n, packets_);
    if (seen(n)) return {n, false};
    for (;;) {
      bool stop = n == root_of(packets_);
      for (const auto& s : stop_at) stop = stop || s == n;
      auto sibling = normal(tree_node{n.first ^ n.span, n.span}, packets_);
      auto at = stop ? held_.end() : held_.find(sibling);
      if (at == held_.end()) {
        held_.emplace(n, std::move(value));
        return {n, true};
      }
      const bool left = n.first < sibling.first;
      value = left ? join(std::move(value), std::move(at->second)) : join(std::move(at->second), std::move(value));
      held_.erase(at);
      n = normal(tree_node{left ? n.first : sibling.first, n.span * 2}, packets_);
    }
  }

  T* find(tree_node n) {
    auto at = held_.find(normal(n, packets_));
    return at == held_.end() ? nullptr : &at->second;
  }
  std::size_t size() const { return held_.size(); }
  // Returns true if the node was added, itself or as part of a larger node.
  bool has(tree_node n) const { return seen(normal(n, packets_)); }

 private:
  // Returns true if the node is present or part of a node that has been joined. Held nodes do not
  // overlap, so only the neighbours of `n` can.
  bool seen(tree_node n) const {
    const auto next = held_.upper_bound(tree_node{n.first, ~0u});
    if (next != held_.end() && next->first.first < n.first + n.span) return true;
    if (next == held_.begin()) return false;
    const auto& before = std::prev(next)->first;
    return n.first < before.first + before.span;
  }

  std::uint32_t packets_;
  std::map<tree_node, T> held_;
};

}  // namespace troupe
