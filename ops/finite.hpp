// Checks that all numbers of a tensor are finite. One pass over host memory.
// Errors: none.
// Threads: stateless functions.
#pragma once

#include <functional>

#include "ops/tensor.hpp"

namespace troupe {

class device;

// Returns true also for tensors without memory and for integer types. The memory must be on the
// host.
bool all_finite(const tensor& t);

// For use in a task: calls `otherwise` before the task is over if an element of `t` is not finite;
// immediately if the host can read `t`. A device with queues checks the sum of squares instead, so
// f64 values beyond 1e154 count as not finite there.
void look_for_not_finite(device& d, const tensor& t, std::function<void()> otherwise);

}  // namespace troupe
