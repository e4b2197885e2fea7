// two_level: a reducer outside the tree. Workers are taken `size` at a time; the sums of such a
// group meet at a reducer beside its first worker, and only that one talks to the shards. One group
// in front of the shards is to them one worker, so they hear from ceil(workers / size) of them;
// depth 2, whatever the number of workers.
//
// Bytes a step, per parameter block: W from each worker to its group's reducer and W back (nothing
// on the wire for the first, which is on the same node), W from each reducer to the shard and W
// back. The weights are those of reducer "server" bit for bit: a group is a contiguous range of
// packets, and the stock role adds it in the brackets of the fixed tree (docs/protocols.md,
// "Reducers").
//
// A row draws roles and routes, no more: summing, restarts and bounds are the stock role's. One
// that sums in another way gives `make` too.
#include <vector>

#include "ops/option_specs.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "runtime/plan/reducer_descriptor.hpp"

namespace {

using namespace troupe;

void lay_out(const options& o, reducer_layout& l) {
  const auto size = static_cast<std::uint32_t>(o.integer("size"));
  role_id reducer = no_role;
  for (std::uint32_t rank = 0; rank < l.workers(); ++rank) {
    if (rank % size == 0) reducer = l.add(rank);
    l.push_to(rank, reducer);
  }
}

}  // namespace

std::uint32_t troupe_abi_version() { return troupe::abi_version; }

void register_plugin(troupe::tables& t) {
  t.reducers.add({.name = "two_level",
                  .doc = "Groups of workers sum among themselves, and one of each group talks to the shards.",
                  .specs = {troupe::bounded(troupe::integer_option("size", 2, "workers in a group"), 1, 1024)},
                  .lay_out = lay_out});
}
