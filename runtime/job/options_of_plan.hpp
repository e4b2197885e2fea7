// What make_plan wants to know of a job beside its file: for whoever plans it once more.
#pragma once

#include "runtime/job/job.hpp"

namespace troupe {

// It refers to the job, which must outlive it.
plan_options options_of_plan(const prepared_job& j);

}  // namespace troupe
