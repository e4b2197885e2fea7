// The stock reducer: it sums what workers and reducers below it push, each sum in the fixed tree
// over packets, and passes the sums to who is above it (passing_reducer.hpp). Which reducers there
// are and who is above whom is drawn by the job's row (plan/reducer_descriptor.hpp): a binomial
// tree (tree.cpp; FireCaffe, Iandola et al. 2016, section 4.2), two levels (hierarchical.cpp), or
// any other.
//
// Messages a step, per parameter block: one push up and one weights down every edge (more pushes
// where the packets at and below a reducer are not one node of the tree over packets). Bytes: the
// block, up and down, on each edge.
//
// Invariants: a sum covers a contiguous range of packets, in the brackets of the fixed tree: the
// weights are those of `server`, bit for bit.
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
    std::size_t left = 0;
  };

  void add(const header& h, const push& p, effects& out) override;
  void forget(std::uint32_t block, std::uint64_t before) override;
  std::size_t open() const override;
  bool covered(tree_node n) const;  // of packets at and below us?

  std::vector<tree_node> cover_;                          // of the packets at and below us
  std::vector<std::map<std::uint64_t, gathering>> open_;  // by block, step
};

}  // namespace troupe
