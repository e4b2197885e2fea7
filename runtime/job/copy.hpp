// Copies of a prepared job.
#pragma once

#include <memory>

#include "runtime/job/job.hpp"

namespace troupe {

// A copy that the caller may change. It does not refer to `j`.
std::shared_ptr<prepared_job> copy_of(const prepared_job& j);

}  // namespace troupe
