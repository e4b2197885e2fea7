// The interval of automatic checkpoints. A plain value.
#pragma once

#include <cstdint>

namespace troupe {

struct checkpoint_interval {
  std::uint64_t steps = 0;  // 0: not by steps
  double seconds = 0;       // 0: not by time
};

}  // namespace troupe
