// A trace of crashes for the simulator: a text file with lines "TIME NODE" or "TIME NODE DOWN", as
// in "3.5h 17 20min"; nodes counted from 1, `#` begins a comment. DOWN: for how long; left away: as
// the fault says.
// Errors: the first line that is none of these, with its place.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "runtime/base/diagnostic.hpp"
#include "runtime/sim/models.hpp"

namespace troupe {

struct traced_crash {
  sim::fault::moment what;
  source_position at;
};
std::variant<std::vector<traced_crash>, diagnostics> parse_fault_trace(const std::string& text, const std::string& file);

}  // namespace troupe
