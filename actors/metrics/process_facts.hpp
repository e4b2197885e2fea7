// CPU time, memory and file descriptors of this process, from /proc and getrusage().
// Errors: none; a value that cannot be read is 0.  Threads: a function without state.
#pragma once

#include <cstdint>

namespace troupe {

struct process_facts {
  double cpu_seconds = 0;
  double started = 0;                             // seconds since 1970
  std::uint64_t resident = 0, address_space = 0;  // bytes
  std::uint64_t open_files = 0, max_files = 0, threads = 0;
};
process_facts facts_of_this_process();

}  // namespace troupe
