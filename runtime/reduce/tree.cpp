// Reducer `tree`: one reducer on the node of every worker. The parent of a rank is the rank with
// its lowest non-zero digit (base arity) cleared; rank 0 is the root, which alone exchanges with
// the shards. The ranks at and below a rank are consecutive, so its sum covers a contiguous range
// of packets. Depth log_arity(workers). Bytes: W up and W down every edge (FireCaffe, Iandola et
// al. 2016).
#include "ops/option_specs.hpp"
#include "runtime/reduce/stock.hpp"

namespace troupe {
namespace {

std::uint32_t parent_of(std::uint32_t rank, std::uint32_t arity) {
  for (std::uint64_t unit = 1; unit <= rank; unit *= arity)
    if (const auto digit = rank / unit % arity; digit != 0) return rank - static_cast<std::uint32_t>(digit * unit);
  return 0;
}

}  // namespace

reducer_descriptor tree_reducer() {
  return {
      .name = "tree",
      .doc =
          "Sums travel up a tree of reducers, one on the node of every worker, and weights return the same way. Shards have few "
          "connections, and the time grows with the logarithm of the number of workers.",
      .specs = {bounded(integer_option("arity", 2, "base of the tree; 2 is a binomial tree"), 2, 64)},
      .lay_out = [](const options& o, reducer_layout& l) {
        std::vector<role_id> colocated;
        for (std::uint32_t rank = 0; rank < l.workers(); ++rank) {
          colocated.push_back(l.add(rank));
          l.push_to(rank, colocated[rank]);
          if (rank > 0) l.above(colocated[rank], colocated[parent_of(rank, static_cast<std::uint32_t>(o.integer("arity")))]);
        }
      }};
}

}  // namespace troupe
