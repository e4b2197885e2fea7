// A reducer of a ring (ring.cpp): it adds what the worker beside it has of a block to the sum that
// comes from the reducer before it, and passes it to the next one, or to the shard beside us if the
// block is its. A block's sum begins behind its shard, so every shard's begins somewhere else and
// all links are busy at once.
//
// Messages a step, per parameter block: one push to the next, one weights to the one before; from
// the worker beside us as under `server`.
// Invariants: our worker's packets are summed first, in their order; then before + ours. So for one
// number of workers a sum always has the same bits, whoever is fast.
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
  // What has come of a step.
  struct gathering {
    std::vector<sum_ptr> ours;  // by their place in cover_; null: not yet
    sum_ptr before;
  };

  void add(const header& h, const push& p, effects& out) override;
  void forget(std::uint32_t block, std::uint64_t before) override;
  std::size_t open() const override;
  bool begins(std::uint32_t block) const { return below(block).size() == 1; }  // nobody is before us
  sum_ptr* place_of(gathering& g, const header& h, const push& p) const;
  bool complete(const gathering& g, std::uint32_t block) const;

  std::vector<tree_node> cover_;                          // of our worker's packets
  std::vector<std::map<std::uint64_t, gathering>> open_;  // by block, step
};

}  // namespace troupe
