// A plan as a number: equal where two nodes, or a run and its replay, have made the same one.
#pragma once

#include <string>

#include "runtime/plan/plan.hpp"

namespace troupe {

std::string plan_hash(const job_plan& p);

}  // namespace troupe
