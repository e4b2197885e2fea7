// The fixed binary tree over the packets of a step (docs/determinism.md). Leaf i is packet i; a node (first, span) with span a
// power of two and first a multiple of it covers packets [first, first + span) that exist; its value is left + right. Whoever
// computes a part of the sum uses the same brackets, so the result is the same bit for bit, whatever the number of workers.
//
// Invariants: a block is taken once (a duplicate is refused); every addition has the lower packets on its left; blocks that miss
// their right half because the packets end are the same node as their left child (`normal` form is the largest such span).
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace troupe {

struct tree_node {
  std::uint32_t first = 0;
  std::uint32_t span = 1;
  friend auto operator<=>(const tree_node&, const tree_node&) = default;
};

// The largest node that covers the same packets.
tree_node normal(tree_node n, std::uint32_t packets);
// The root of the tree over `packets` packets.
tree_node root_of(std::uint32_t packets);
bool well_formed(tree_node n, std::uint32_t packets);
// The maximal aligned blocks of [first, first + count), in order: what a worker sends.
std::vector<tree_node> cover(std::uint32_t first, std::uint32_t count, std::uint32_t packets);

// Collects blocks and says which additions are due. T is what is added (tensors); `join(left, right)` makes the parent's value.
template <class T>
class packet_tree {
 public:
  explicit packet_tree(std::uint32_t packets) : packets_(packets) {}

  // Takes a block and joins upward while the sibling is there, but not above a node of `stop_at` (a worker stops at the blocks it
  // sends; a shard at the root). Returns the node that now holds the value, and false when the block was already there.
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
  // Has this node come, as itself or inside one that has been joined?
  bool has(tree_node n) const { return seen(normal(n, packets_)); }

 private:
  // Present as itself or inside a node that has been joined already.
  bool seen(tree_node n) const {
    for (const auto& [k, v] : held_)
      if (k.first <= n.first && n.first < k.first + k.span) return true;
    for (const auto& [k, v] : held_)
      if (n.first <= k.first && k.first < n.first + n.span) return true;
    return false;
  }

  std::uint32_t packets_;
  std::map<tree_node, T> held_;
};

}  // namespace troupe
