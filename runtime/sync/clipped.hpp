// Clipping by the norm over all parameters, in modes where one gradient a step meets at the shards
// (bsp, sandblaster). One more round: a shard that has the whole gradient of a block tells all
// shards its sums of squares; a shard that has those of every block knows the norm, and all know
// the same: parameters are added in layer order, parts of one in the fixed tree over its elements.
// Messages a step: for every block, one `norm_partials` to each other shard. Bytes: a few numbers.
// Invariants: the factor depends on the gradients alone, not on how parameters are cut or in which
// order words arrive; a block is updated once, after the factor of its step is known.
#pragma once

#include <memory>

#include "runtime/sync/clocked.hpp"

namespace troupe {

// The shard half of such a mode: one that clips by norm when the job says so.
std::unique_ptr<role> make_clocked_shard(sync_config c, clock_policy p);

}  // namespace troupe
