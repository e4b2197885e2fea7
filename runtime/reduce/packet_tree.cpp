#include "runtime/reduce/packet_tree.hpp"

#include <bit>

namespace troupe {

tree_node root_of(std::uint32_t packets) { return {0, std::bit_ceil(packets == 0 ? 1u : packets)}; }

tree_node normal(tree_node n, std::uint32_t packets) {
  const auto root = root_of(packets);
  // As long as the node is a left child whose right sibling holds no packet, it is the same node as its parent.
  while (n.span < root.span && (n.first & n.span) == 0 && n.first + n.span >= packets) n.span *= 2;
  return n;
}

bool well_formed(tree_node n, std::uint32_t packets) {
  return std::has_single_bit(n.span) && n.span <= root_of(packets).span && n.first % n.span == 0 && n.first < packets;
}

std::vector<tree_node> cover(std::uint32_t first, std::uint32_t count, std::uint32_t packets) {
  std::vector<tree_node> out;
  const auto end = first + count;
  while (first < end) {
    tree_node best{first, 1};
    for (tree_node n{first, 1}; n.span <= root_of(packets).span && n.first % n.span == 0; n.span *= 2) {
      const auto covered_end = n.first + n.span < packets ? n.first + n.span : packets;
      if (covered_end <= end) best = n;
    }
    best = normal(best, packets);
    out.push_back(best);
    first = best.first + best.span;
  }
  return out;
}

}  // namespace troupe
