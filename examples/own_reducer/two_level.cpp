// two_level: a reducer outside the tree. Groups of `size` workers send their sums to a reducer on
// the node of the group's first worker, and only the reducers exchange with the shards. A shard
// sees each group as one worker, so it receives ceil(workers / size) pushes. The depth is 2 for any
// number of workers.
//
// Bytes per step and parameter block: W from each worker to its group's reducer and W back (not on
// the wire for the first worker, which is on the same node), W from each reducer to the shard and W
// back. The weights are those of reducer "server" bit for bit: a group is a contiguous range of
// packets, and the stock role adds it in the brackets of the fixed tree (docs/protocols.md,
// "Reducers").
//
// The entry only defines roles and routes; the stock role does summing and bounds. A
// reducer that sums differently also sets `make`.
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
                  .doc = "Workers sum in groups, and one reducer of each group exchanges with the shards.",
                  .specs = {troupe::bounded(troupe::integer_option("size", 2, "workers in a group"), 1, 1024)},
                  .lay_out = lay_out});
}
