// What bounds a step of a traced job: for each role, group of roles and link, how long a step would
// take if it were twice as fast.
// Errors: none.  Threads: one at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/critical/what_if.hpp"

namespace troupe {

struct step_cause {
  std::string name;         // "worker3/conv1", "conv1 of all workers", "all shards", "link n1 to n2",
                            // "links of n2"
  std::size_t parts = 1;    // roles or links
  faster_work half;         // half their times
  double busy = 0;          // seconds in a step that they work, the longest of them
  double step_seconds = 0;  // if they were twice as fast
};

// The causes by the gain of halving them; the first bounds the step: of those whose gain is at
// least 0.9 times the largest, it has the fewest parts. Only the `most` busiest single roles, and
// as many links, are tried.
std::vector<step_cause> step_causes(const what_if& w, std::size_t most = 16);

}  // namespace troupe
