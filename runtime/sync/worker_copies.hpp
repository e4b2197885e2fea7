// The copies of blocks that workers with their own weights send to a shard, and their means.
#pragma once

#include <cstdint>
#include <map>

#include "runtime/sync/shard_parts.hpp"

namespace troupe {

// By block id, worker.
using worker_copies = std::map<std::uint32_t, std::map<std::uint32_t, state>>;

// Replaces the rule states (`mean_states`) and the weights (`mean_values`) of the blocks by the
// means of their copies, weighted by mass, in tasks. Computed in worker order, so they do not
// depend on the order of arrival.
void fold_copies(const shard_parts& p, const worker_copies& all, bool mean_states, bool mean_values, effects& out);

}  // namespace troupe
