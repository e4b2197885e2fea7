// The stock rules, one file per family. rule.cpp registers them.
#pragma once

#include "ops/geometry.hpp"
#include "ops/rule.hpp"

namespace troupe {

// The effective gradient, as every rule computes it from the given one.
gradient_spec counted_gradient(const rule_step& now);

// A rule that is one call of device::adaptive_update. `base` holds the job's options, `names` the
// states in the device's order. `numbers`, if not null, sets the factors that depend on the number
// of updates, after lr and gradient are set.
using step_numbers = std::function<void(const rule_step& now, adaptive_spec& s)>;
std::unique_ptr<rule> adaptive(adaptive_spec base, std::vector<std::string> names, step_numbers numbers = nullptr);

// Options of several rules.
option_spec eps_option(double fallback);
option_spec share_option(std::string name, double fallback, std::string doc);  // in [0, 1)

}  // namespace troupe
