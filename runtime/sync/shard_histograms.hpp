// Histograms of a shard's blocks, for the coordinator (want_histograms): counted by the task of an
// update (apply_rule) or, of the weights alone, by a task of their own.
#pragma once

#include <memory>

#include "runtime/sync/shard_parts.hpp"

namespace troupe {

// Sends the histograms of a block, if it has values. A device with queues counts in a second task.
void tell_histograms(const shard_parts& p, const std::shared_ptr<block_histograms>& counted, effects& out);
// Counts the weights of the blocks that can be counted now (shard_blocks::take_countable).
void count_weights(const shard_parts& p, effects& out);

}  // namespace troupe
