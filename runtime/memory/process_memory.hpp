// How much memory this process may still take: what the machine, the cgroups that the process is in (v1 and v2, up to the root) and its limit of
// address space leave, whichever is least. All that asks for free memory asks here.
// Errors: none; what cannot be read limits nothing.  Threads: functions without state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

using text_of_file = std::function<std::optional<std::string>(const std::string& file)>;  // nothing where the file is not there

// A limit of a cgroup, and the file that says so.
struct cgroup_limit {
  double bytes = 0;
  std::string file;
};

// The least limit along the path of this process's cgroup, v1 (memory.limit_in_bytes) and v2 (memory.max), up to the root; none where no file
// sets one. `cgroups`: the text of /proc/self/cgroup. In a container the path may be that of the machine outside: then only the root's file is
// there, and it is the container's.
std::optional<cgroup_limit> memory_limit_of(std::string_view cgroups, const text_of_file& read);

struct process_memory {
  std::uint64_t total = 0;  // the limit, in all, of the group or machine that leaves the least; 0: unknown
  std::uint64_t left = 0;   // of it, what no process has, and what the kernel would give back at once (pages of files)
  std::string of;           // "this machine has", "its cgroup (/a/memory.max) allows"
};

// `read`: /proc/meminfo, /proc/self/cgroup, /proc/self/limits, /proc/self/status, and the files of the cgroups.
process_memory process_memory_by(const text_of_file& read);

// Of this process, now.
process_memory memory_of_this_process();
// Bytes of it that are left; where nothing is known, the most that there can be.
std::uint64_t memory_left();

}  // namespace troupe
