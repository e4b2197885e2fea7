// Are all numbers of a tensor finite? One pass over the host's memory.
// Errors: none.  Threads: a function without state.
#pragma once

#include "ops/tensor.hpp"

namespace troupe {

// True also of what has no memory, and of numbers of things. The memory must be the host's.
bool all_finite(const tensor& t);

}  // namespace troupe
