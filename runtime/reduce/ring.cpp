// Reducer `ring`: a shard and a reducer on the node of every worker (Patarasuk and Yuan 2009). The
// sum of a block starts at the worker after the one next to its shard and passes from reducer to
// reducer. Each adds its own worker's packets, and the sum is complete at the node of the shard.
// Weights pass the other way round. Bytes: 2 W (N-1)/N out of every node, N - 1 hops each way; a
// node communicates with its two neighbours only.
//
// A sum is added in ring order, starting at another worker for each shard. So its bits differ from
// those of the other reducers and depend on the number of workers; for one number of workers they
// are always the same. runtime/reduce/ring_sum.hpp
#include "runtime/reduce/ring_sum.hpp"
#include "runtime/reduce/stock.hpp"

namespace troupe {

reducer_descriptor ring_reducer() {
  return {
      .name = "ring",
      .doc =
          "Sums pass from worker to worker around a ring, up to the shard on the node of one of them: as few bytes as `sharded`, "
          "and two neighbours per node, but one hop per worker. A sum is added in ring order, so weights equal those of the "
          "other reducers up to rounding.",
      .specs = {},
      .places =
          [](const options&) {
            return reducer_placing{reducer_placing::shards::colocated_with_workers, true};
          },
      .lay_out =
          [](const options&, reducer_layout& l) {
            std::vector<role_id> colocated;
            for (std::uint32_t rank = 0; rank < l.workers(); ++rank) {
              colocated.push_back(l.add(rank));
              l.push_to(rank, colocated.back());
            }
            l.ring(colocated);
          },
      .make = [](reducer_config c) -> std::unique_ptr<role> { return std::make_unique<ring_sum>(std::move(c)); }};
}

}  // namespace troupe
