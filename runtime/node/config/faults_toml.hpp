// Writes faults as a file that `troupe sim --faults` reads.
#pragma once

#include <string>
#include <vector>

#include "runtime/sim/schedule.hpp"

namespace troupe {

// The happenings, and the faults of single messages and `resend` of `wire`, as TOML. The
// file repeats them exactly: draw_schedule() of what parse_sim() reads is `list`, if that is sorted
// by time, and wire_faults() of it is that of `wire`. Nodes are written as numbers.
std::string faults_toml(const std::vector<sim::happening>& list, const sim::fault_model& wire = {});

}  // namespace troupe
