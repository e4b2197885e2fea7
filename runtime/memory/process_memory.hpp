// How much memory this process may still allocate: the least of what the machine, the cgroups of
// the process (v1 and v2, up to the root) and its limit of address space leave. Every check of free
// memory in Troupe uses these functions.
// Errors: none; a file that cannot be read sets no limit.  Threads: any.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

using text_of_file = std::function<std::optional<std::string>(const std::string& file)>;  // nullopt: there is no such file

struct process_memory {
  std::uint64_t total = 0;  // bytes: the limit of the group or machine that leaves the least; 0: unknown
  std::uint64_t left = 0;   // bytes of `total` that are free, or that the kernel can free at once (page cache)
  std::string of;           // "this machine has", "its cgroup (/a/memory.max) allows"
  bool alone = false;       // the limit is of this process alone: no other process takes of `left`
};

// `read`: /proc/meminfo, /proc/self/cgroup, /proc/self/limits, /proc/self/status, and the files of
// the cgroups.
process_memory process_memory_by(const text_of_file& read);

// From now on memory_of_this_process() counts for this process an equal share of what is left, next
// to other processes of the same program. For daemons: several may run on a machine or in a
// container.
void share_memory_alike();

// Of this process, now.
process_memory memory_of_this_process();
// `left` of this process, now; UINT64_MAX if it is unknown.
std::uint64_t memory_left();

// Processes that run the same program file as this one in the same cgroups, at least 1: daemons
// that a machine or a container runs side by side. `proc`: /proc.
std::uint64_t processes_of_this_program(const std::string& proc = "/proc");
// `m` for one of `processes` that judge the same free memory, and could all take it: each has an
// equal share of what is left, unless the limit is its own. What they hold already is not free for
// any of them.
process_memory shared_alike(process_memory m, std::uint64_t processes);

}  // namespace troupe
