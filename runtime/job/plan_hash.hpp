// Hash of a plan (SHA-256, hexadecimal). Two nodes, or a run and its replay, compare it to check
// that they made the same plan.
#pragma once

#include <string>

#include "runtime/plan/plan.hpp"

namespace troupe {

std::string plan_hash(const job_plan& p);

}  // namespace troupe
