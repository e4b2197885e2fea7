// Reducer `hierarchical`: two levels (levels.hpp). Each block leaves a node once per step, however
// many workers the node has. Between nodes the sums travel as `between` says:
//
//   sharded   to shards, one on each node: 2 W (N-1)/N bytes out of each of N nodes
//   server    to the shards of [topology]
//   tree      up a binomial tree of the nodes' reducers to these shards: W each way on every edge
#include "ops/option_specs.hpp"
#include "runtime/reduce/levels.hpp"
#include "runtime/reduce/stock.hpp"

namespace troupe {
namespace {

// The first rank of each node.
std::vector<std::uint32_t> firsts(const reducer_layout& l) {
  std::vector<std::uint32_t> first;
  for (std::uint32_t rank = 0; rank < l.workers(); ++rank)
    if (rank == 0 || l.node_of(rank) != l.node_of(rank - 1)) first.push_back(rank);
  return first;
}

}  // namespace

void lay_out_levels(const options& o, reducer_layout& l, bool across) {
  const auto first = firsts(l);
  const bool tree = o.text("between") == "tree";
  std::vector<role_id> colocated;
  for (std::uint32_t n = 0; n < first.size(); ++n) {
    const auto end = n + 1 < first.size() ? first[n + 1] : l.workers();
    if (!tree && end - first[n] == 1) continue;  // a single worker needs no reducer
    colocated.push_back(l.add(first[n], across));
    for (auto rank = first[n]; rank < end; ++rank) l.push_to(rank, colocated.back());
    if (tree && n > 0) l.above(colocated[n], colocated[n & (n - 1)]);
  }
}

option_specs level_options() {
  return {choice_option("between", {"sharded", "server", "tree"},
                        "`sharded`: to a shard on each node; `server`: to the shards of `[topology]`; `tree`: up a "
                        "binomial tree of nodes to these shards")};
}

reducer_placing place_levels(const options& o) {
  const bool sharded = o.text("between") == "sharded";
  return {sharded ? reducer_placing::shards::one_a_node : reducer_placing::shards::as_said, true};
}

reducer_descriptor hierarchical_reducer() {
  return {.name = "hierarchical",
          .doc =
              "The workers of a node sum at a reducer on that node, and the nodes' sums travel as `between` says, so each block "
              "leaves a node once per step.",
          .specs = level_options(),
          .places = place_levels,
          .lay_out = [](const options& o, reducer_layout& l) { lay_out_levels(o, l, false); }};
}

}  // namespace troupe
