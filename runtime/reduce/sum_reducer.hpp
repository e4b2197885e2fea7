// The stock reducer for trees: sums the pushes of the workers and reducers below it in the packet
// tree and passes the sums up (passing_reducer.hpp). The job's reducer
// (plan/reducer_descriptor.hpp) draws the reducers and their connections: a binomial tree
// (tree.cpp; FireCaffe, Iandola et al. 2016, section 4.2), two levels (hierarchical.cpp), or any
// other.
//
// Messages per step and block: one push up and one weights down every edge (more pushes if the
// packets at and below a reducer are not one node of the packet tree). Bytes: the block, up and
// down, on each edge.
//
// Invariant: a sum covers a contiguous range of packets, in the brackets of the packet tree, so the
// weights are those of `server` bit for bit.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/reduce/passing_reducer.hpp"

namespace troupe {

class sum_reducer final : public passing_reducer {
 public:
  explicit sum_reducer(reducer_config c);

 private:
  struct gathering {
    packet_tree<sum_ptr> tree;
    std::size_t left = 0;  // number of cover nodes that are complete
  };

  void add(const header& h, const push& p, effects& out) override;
  void forget(std::uint32_t block, std::uint64_t before) override;
  std::size_t open() const override;
  bool covered(tree_node n) const;  // true: its packets are at or below this reducer

  std::vector<tree_node> cover_;                          // of the packets at and below this reducer
  std::vector<std::map<std::uint64_t, gathering>> open_;  // by block, step
};

}  // namespace troupe
