// How long a step of a job usually takes, by what its roles did.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/trace/activity.hpp"

namespace troupe {

// In seconds: the median of the times between the first activities of a role in two steps that
// follow each other, over all roles of a job, of activities of one node. nullopt: no role has been
// seen in two such steps. `all`: in any order.
std::optional<double> usual_step(const std::vector<activity>& all, std::uint32_t job);

}  // namespace troupe
