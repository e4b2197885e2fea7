// How much memory a job may use in this process: the memory that is left (runtime/memory), less a
// reserve for memory that no plan counts.
// Errors: none; a file that cannot be read sets no limit.
// Threads: functions without state.
#pragma once

#include <cstdint>

#include "runtime/job/memory_budget.hpp"
#include "runtime/memory/process_memory.hpp"

namespace troupe {

// The reserve, for libraries, threads, messages in flight and file buffers: an eighth of the
// memory, at most 256 MiB.
std::uint64_t reserve_of(const process_memory& m);

// `held`: bytes that the process holds now and a job would reuse (pools of devices). `promised`:
// free bytes that are reserved for other jobs.
memory_budget job_memory(const process_memory& m, std::uint64_t held = 0, std::uint64_t promised = 0);

// For this process, now.
inline memory_budget machine_memory(std::uint64_t held = 0) { return job_memory(memory_of_this_process(), held); }

}  // namespace troupe
