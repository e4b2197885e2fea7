// The stock rules, one file a family; rule.cpp puts them into the table.
#pragma once

#include "ops/geometry.hpp"
#include "ops/rule.hpp"

namespace troupe {

// What every rule makes of its gradient before anything else.
gradient_spec counted_gradient(const rule_step& now);

// A rule that is one call of device::adaptive_update: `base` holds the job's choices, `names` the
// states in the device's order. `numbers` sets what depends on the updates so far, where there is
// such a thing; lr and gradient are set before.
using step_numbers = std::function<void(const rule_step& now, adaptive_spec& s)>;
std::unique_ptr<rule> adaptive(adaptive_spec base, std::vector<std::string> names, step_numbers numbers = nullptr);

// Options that several rules have.
option_spec eps_option(double fallback);
option_spec share_option(std::string name, double fallback, std::string doc);  // in [0, 1)

}  // namespace troupe
