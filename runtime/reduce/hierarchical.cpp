// Reducer `hierarchical`: two levels, as Platoon has them. Workers of one node follow each other
// and sum at a reducer beside the first of them, so between nodes every block travels once for a
// node, however many workers it has. Between nodes the sums go as `between` says:
//
//   sharded   to shards, one on each node: 2 W (N-1)/N bytes out of each of N nodes
//   server    to the shards that [topology] asks for
//   tree      up a binomial tree of the nodes' reducers to those shards: W each way on every edge
#include "ops/option_specs.hpp"
#include "runtime/reduce/stock.hpp"

namespace troupe {
namespace {

// Ranks at which a node's workers begin.
std::vector<std::uint32_t> firsts(const reducer_layout& l) {
  std::vector<std::uint32_t> first;
  for (std::uint32_t rank = 0; rank < l.workers(); ++rank)
    if (rank == 0 || l.node_of(rank) != l.node_of(rank - 1)) first.push_back(rank);
  return first;
}

void lay_out_levels(const options& o, reducer_layout& l) {
  const auto first = firsts(l);
  const bool tree = o.text("between") == "tree";
  std::vector<role_id> colocated;
  for (std::uint32_t n = 0; n < first.size(); ++n) {
    const auto end = n + 1 < first.size() ? first[n + 1] : l.workers();
    if (!tree && end - first[n] == 1) continue;  // it has nobody to sum with
    colocated.push_back(l.add(first[n]));
    for (auto rank = first[n]; rank < end; ++rank) l.push_to(rank, colocated.back());
    if (tree && n > 0) l.above(colocated[n], colocated[n & (n - 1)]);
  }
}

}  // namespace

reducer_descriptor hierarchical_reducer() {
  return {.name = "hierarchical",
          .doc = "Workers of one node sum there first, and the nodes' sums meet as `between` says: each block leaves a node once.",
          .specs = {choice_option(
              "between", {"sharded", "server", "tree"},
              "`sharded`: a shard on each node; `server`: the shards of `[topology]`; `tree`: up a binomial tree to those")},
          .places =
              [](const options& o) {
                const bool sharded = o.text("between") == "sharded";
                return reducer_placing{sharded ? reducer_placing::shards::one_a_node : reducer_placing::shards::as_said, true};
              },
          .lay_out = lay_out_levels};
}

}  // namespace troupe
