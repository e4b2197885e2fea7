// Would a job be too much for the memory of who is to hold it? Asked before anything of it is
// allocated.
// Errors: none.  Threads: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/diagnostic.hpp"
#include "runtime/cost/plan_memory.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

// Bytes that may be held; 0: nobody knows. `of` says whose limit that is, as in "... and this
// machine has 23 GiB".
struct memory_budget {
  double bytes = 0;
  std::string of;  // "this machine has", "this cgroup may have"
};

// The memory that the plan of a prepared job needs (plan_memory.hpp), including what grows with the
// number of examples: the orders of samplers, and the reports of an evaluation's packets.
plan_memory memory_of(const prepared_job& j);
// Bytes that node `node` needs: the larger of training and evaluating.
double bytes_on(const prepared_job& j, std::uint32_t node);

// What keeps node `node` of the job's plan from holding its part, training or evaluating: names the
// tensor that takes the most, at its layer, or at the batch where that is what is too large.
std::optional<diagnostic> over_budget(const prepared_job& j, std::uint32_t node, const memory_budget& budget);

}  // namespace troupe
