// Clipping by the norm of the gradient of all parameters, in modes in which one complete gradient
// per step is formed at the shards (bsp, sandblaster). It costs one extra round per step: a shard
// that has the complete gradient of a block sends the block's norm partials (sums of squares) to
// the other shards. A shard that has the partials of every block computes the norm. All shards
// compute the same norm: parameters are added in layer order, and the parts of a parameter in the
// fixed tree over its elements.
//
// Messages per step: for every block, one `norm_partials` to each other shard. Bytes: a few
// numbers.
//
// Invariants:
//   * the clip factor depends on the gradients alone, not on how parameters are cut nor on the
//     order of arrival;
//   * a block is updated once per step, after the factor of the step is known.
#pragma once

#include <memory>

#include "runtime/sync/clocked.hpp"

namespace troupe {

// Makes the shard sync of such a mode. It clips by norm if sync_config::clip_norm is set.
std::unique_ptr<role> make_clocked_shard(sync_config c, clock_policy p);

}  // namespace troupe
