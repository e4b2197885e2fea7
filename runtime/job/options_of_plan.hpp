// The options of make_plan for a job: the inputs that are not in its specification.
#pragma once

#include "runtime/job/job.hpp"

namespace troupe {

// The options refer to the job, which must outlive them.
plan_options options_of_plan(const prepared_job& j);

}  // namespace troupe
