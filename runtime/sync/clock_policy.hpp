// The choices of a mode whose workers push gradients and whose shards apply the update rule clock
// by clock (clocked.hpp).
#pragma once

#include <cstdint>

namespace troupe {

struct clock_policy {
  // Maximum number of clocks that the weights of a step may lack. 0: a step runs with weights of
  // exactly its version; forever: no limit.
  static constexpr std::uint64_t forever = ~0ull >> 1;
  std::uint64_t staleness = 0;
  // true: workers fetch weights (ssp). false: the shard sends every version to all workers of the
  // group.
  bool pull = false;
  // The coordinator deals the packets of a step while it runs. Weights of the next version may then
  // arrive before this worker's own gradients are complete, and end the step for it.
  bool work_units = false;
  std::uint32_t work_unit = 1;  // packets per work unit
};

}  // namespace troupe
