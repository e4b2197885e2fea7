// Are all numbers of a tensor finite? One pass over the host's memory.
// Errors: none.  Threads: a function without state.
#pragma once

#include <functional>

#include "ops/tensor.hpp"

namespace troupe {

class device;

// True also of what has no memory, and of numbers of things. The memory must be the host's.
bool all_finite(const tensor& t);

// In a task: calls `otherwise` before the task is over where a number of `t` is not finite; at once
// where the host may look for itself. On a device with queues the sum of squares tells, so that
// there f64 beyond 1e154 counts as not finite.
void look_for_not_finite(device& d, const tensor& t, std::function<void()> otherwise);

}  // namespace troupe
