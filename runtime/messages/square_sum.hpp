// A partial sum of squares: what shards exchange to clip gradients by their norm (reduce/norm.hpp).
#pragma once

#include <tuple>

#include "ops/tree/packet_tree.hpp"

namespace troupe {

struct square_sum {
  tree_node node;    // of the tree over a parameter's elements, in groups (squares_group)
  double sum = 0.0;  // of the squares of the node's elements
  static auto fields(auto& s) { return std::tie(s.node.span, s.node.first, s.sum); }
};

}  // namespace troupe
