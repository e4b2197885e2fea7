// A trace of crashes for the simulator: a text file with lines "TIME NODE" or "TIME NODE DOWN", as
// in "3.5h 17 20min". Nodes are counted from 1; `#` starts a comment. DOWN: duration until the
// restart; if absent, that of the fault applies.
// Errors: the first invalid line, with its position.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/diagnostic.hpp"
#include "runtime/base/result.hpp"
#include "runtime/sim/models.hpp"

namespace troupe {

struct traced_crash {
  sim::fault::moment what;
  source_position at;
};
expected<std::vector<traced_crash>, diagnostics> parse_fault_trace(const std::string& text, const std::string& file);

}  // namespace troupe
