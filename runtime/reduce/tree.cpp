// Reducer `tree`: one reducer beside every worker; the parent of a rank is the rank with its lowest
// digit (base arity) that is not 0 cleared, and 0 is the root, which alone talks to the shards. The
// ranks at and below one rank follow it without a gap, so its sum covers a contiguous range of
// packets. Depth log_arity(workers); bytes: W up and W down every edge (FireCaffe, Iandola et al.
// 2016).
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
  return {.name = "tree",
          .doc =
              "Sums go up a tree of reducers, one beside every worker, and weights come back the same way: few connections at the "
              "shards, and time that grows with the logarithm of the workers.",
          .specs = {bounded(integer_option("arity", 2, "2 is a binomial tree"), 2, 64)},
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
