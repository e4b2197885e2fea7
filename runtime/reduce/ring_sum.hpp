// A reducer of a ring (ring.cpp). For each block it adds the packets of its colocated worker to the
// sum from the previous reducer, and passes the result to the next reducer, or to the colocated
// shard if that shard owns the block. The sum of a block starts after its shard, so each shard's
// sums start at another reducer and all links are busy at once.
//
// Messages per step and block: one push to the next reducer, one weights to the previous one; with
// the colocated worker as under `server`.
// Invariants: this worker's packets are summed first, in their order; then previous sum + own sum.
// So for one number of workers a sum always has the same bits, whatever the timing.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/reduce/passing_reducer.hpp"

namespace troupe {

class ring_sum final : public passing_reducer {
 public:
  explicit ring_sum(reducer_config c);

 private:
  // The sums of one step that have arrived.
  struct gathering {
    std::vector<sum_ptr> ours;  // by position in cover_; null: not arrived
    sum_ptr before;             // from the previous reducer
  };

  void add(const header& h, const push& p, effects& out) override;
  void forget(std::uint32_t block, std::uint64_t before) override;
  std::size_t open() const override;
  bool begins(std::uint32_t block) const { return below(block).size() == 1; }  // no reducer precedes this one
  sum_ptr* place_of(gathering& g, const header& h, const push& p) const;
  bool complete(const gathering& g, std::uint32_t block) const;

  std::vector<tree_node> cover_;                          // of the colocated worker's packets
  std::vector<std::map<std::uint64_t, gathering>> open_;  // by block, step
};

}  // namespace troupe
