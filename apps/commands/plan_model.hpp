// The model of a job as a table: layers with shapes, parameters, operations, places and memory.
#pragma once

#include <string>

#include "runtime/job/job.hpp"

namespace troupe {

// At most 100 columns wide, with a line of totals.
std::string model_table(const prepared_job& j);

}  // namespace troupe
