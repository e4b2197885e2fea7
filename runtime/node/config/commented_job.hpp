// A job file with a comment for each key: what it is, and the values that it accepts, from the
// tables that the reader uses.  Threads: functions without state.
#pragma once

#include <string>
#include <vector>

#include "runtime/job/tables.hpp"

namespace troupe {

// `example`: a valid job file. Its keys keep their values and order; a key of several layers is
// explained once. `set` ("key.path=value") replaces values, `add` adds keys that the example does
// not have. Throws std::logic_error if the example or a key is invalid.
std::string commented_job_text(const std::string& example, const std::vector<std::string>& set, const std::vector<std::string>& add,
                               const tables& all);

}  // namespace troupe
