// Reducer `sharded`: a shard beside every worker, each with as many parameters as the others, and
// nothing between them. Workers send every shard its part of their sums, which adds them in the
// fixed order, and get the new weights of it: reduce-scatter and all-gather, with the update
// between them. Bytes: 2 W (N-1)/N out of every node and as many in, as a ring has them, and no
// node has more; one hop, not N-1. What ZeRO's first stage keeps apart (Rajbhandari et al. 2020),
// states of the update rule, is apart here too. For every mode.
#include "runtime/reduce/stock.hpp"

namespace troupe {

reducer_descriptor sharded_reducer() {
  return {.name = "sharded",
          .doc =
              "A shard beside every worker: each sums its part of the parameters for all, so every node sends and gets as many "
              "bytes as "
              "the others, about twice the parameters. Says itself how many shards there are.",
          .specs = {},
          .places = [](const options&) { return reducer_placing{.of_shards = reducer_placing::shards::colocated_with_workers}; }};
}

}  // namespace troupe
