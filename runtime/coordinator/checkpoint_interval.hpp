// The interval of automatic checkpoints. A plain value.
#pragma once

#include <cstdint>

namespace troupe {

struct checkpoint_interval {
  std::uint64_t steps = 0;  // 0: not by steps
  double seconds = 0;       // 0: not by time
  // A job with an interval has a checkpoint of its last step too, so that it can be extended.
  bool any() const { return steps > 0 || seconds > 0; }
};

}  // namespace troupe
