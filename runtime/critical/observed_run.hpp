// What a trace says about the time of a job: how long the tasks of each role took, how long
// messages were under way between nodes, and how long a step took.
// Pure. Errors: none; what a trace does not have is empty.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/messages/ids.hpp"
#include "runtime/trace/trace_file.hpp"

namespace troupe {

struct observed_run {
  // By role and kind of task, in the order in which they ended.
  std::map<std::pair<std::string, std::string>, std::vector<duration>> tasks;
  // By node and node: sizes in bytes, and the times of the messages of that size. The trace ends
  // the time of a message when its receiver takes it; messages that mostly waited for a thread of
  // their node are left out.
  std::map<std::pair<std::string, std::string>, std::map<std::uint64_t, std::vector<duration>>> links;
  std::uint64_t steps = 0;  // that the trace has in whole
  double step_seconds = 0;  // of one of these, on average; 0: too few
  // Seconds in a step that the role computes.
  double busy(const std::string& role) const;
};

// Leaves out the first tenth of the trace, in which pools and caches fill.
observed_run observed_in(const trace_file& t);

}  // namespace troupe
