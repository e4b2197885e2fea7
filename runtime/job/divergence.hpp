// What a user may change if a loss, a gradient or a weight is no longer finite.
#pragma once

#include <string>

#include "runtime/spec/job_spec.hpp"

namespace troupe {

// "; training diverges: lower ..., ...": the end of the error's text, by the job's update rule,
// rate, clipping and precision.
std::string divergence_advice(const job_spec& s);

}  // namespace troupe
