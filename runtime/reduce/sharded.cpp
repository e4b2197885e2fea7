// Reducer `sharded`: a shard on the node of every worker, each with an equal part of the
// parameters, and no reducer roles. Workers send each shard its part of their sums; it adds them in
// the fixed order and returns the new weights: reduce-scatter and all-gather, with the update
// between them. Bytes: 2 W (N-1)/N out of every node and as many in, as with a ring, and no node
// has more; one hop instead of N-1. The states of the update rule are partitioned too, as in ZeRO's
// first stage (Rajbhandari et al. 2020). For every mode.
#include "runtime/reduce/stock.hpp"

namespace troupe {

reducer_descriptor sharded_reducer() {
  return {
      .name = "sharded",
      .doc =
          "A shard on the node of every worker sums its part of the parameters for all workers, so all nodes send and receive the "
          "same number of bytes, about twice the size of the parameters. Sets the number of shards itself.",
      .specs = {},
      .places = [](const options&) { return reducer_placing{.of_shards = reducer_placing::shards::colocated_with_workers}; }};
}

}  // namespace troupe
