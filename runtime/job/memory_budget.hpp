// Checks before a job allocates memory that each node can hold its part of the job.
// Errors: none.  Threads: functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/diagnostic.hpp"
#include "runtime/base/result.hpp"
#include "runtime/cost/plan_memory.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

// A limit of memory. `of` names it in messages, as in "... and this machine has 23 GiB".
struct memory_budget {
  double bytes = 0;  // 0: unknown
  std::string of;    // e.g. "this machine has", "its cgroup (/a/memory.max) allows"
};

// Returns the memory that the plan of a prepared job needs (plan_memory.hpp), including the parts
// that grow with the number of examples: the orders of samplers and the reports of evaluations.
plan_memory memory_of(const prepared_job& j);
// Returns the bytes that node `node` needs: the larger of training and evaluation.
double bytes_on(const prepared_job& j, std::uint32_t node);

// An error if node `node` of the job's plan cannot hold its part in training or evaluation. It
// names the largest tensor, at its layer, or at the batch if the data is the largest.
expected<void, diagnostic> check_memory(const prepared_job& j, std::uint32_t node, const memory_budget& budget);

}  // namespace troupe
