// What a job may hold in this process: what is left of its memory (runtime/memory), less a reserve for all that no plan counts.
// Errors: none; what cannot be read limits nothing.  Threads: functions without state.
#pragma once

#include <cstdint>

#include "runtime/job/memory_budget.hpp"
#include "runtime/memory/process_memory.hpp"

namespace troupe {

// Libraries, threads, messages on their way, what is read of files: an eighth of the memory, and at most 256 MiB.
std::uint64_t reserve_of(const process_memory& m);

// `held`: what the process has now and a job would have instead (pools of devices); `promised`: what is left and is not the job's.
memory_budget job_memory(const process_memory& m, std::uint64_t held = 0, std::uint64_t promised = 0);

// Of this process, now.
inline memory_budget machine_memory(std::uint64_t held = 0) { return job_memory(memory_of_this_process(), held); }

}  // namespace troupe
