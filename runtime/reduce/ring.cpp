// Reducer `ring`: a shard and a reducer beside every worker. The sum of a block begins beside the
// worker after its shard's, goes from each to the next, grows by what that one's worker has, and is
// whole where its shard is; weights go the other way round. Bytes: 2 W (N-1)/N out of every node,
// N-1 hops each way; no node talks to more than two. Patarasuk and Yuan 2009.
//
// The order of the sum is that of the ring, beginning at another worker for each shard, so its bits
// are not those of the other reducers, and change with the number of workers; for one number of
// workers they are always the same. runtime/reduce/ring_sum.hpp
#include "runtime/reduce/ring_sum.hpp"
#include "runtime/reduce/stock.hpp"

namespace troupe {

reducer_descriptor ring_reducer() {
  return {.name = "ring",
          .doc =
              "Sums go round the workers, each block's up to the shard beside one of them: as few bytes as `sharded`, and two "
              "neighbours for "
              "every node, but one hop for each worker, and the order of a sum is the ring's: weights are those of the others to "
              "rounding.",
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
