// How much memory this process may have: what the machine has, or what the cgroups that it is in allow, whichever is less.
// Errors: none; what cannot be read limits nothing.  Threads: functions without state.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/job/memory_budget.hpp"

namespace troupe {

// A limit of a cgroup, and the file that says so.
struct cgroup_limit {
  double bytes = 0;
  std::string file;
};

// The least limit along the path of this process's cgroup, v1 (memory.limit_in_bytes) and v2 (memory.max), up to the root; none where no file
// sets one. `cgroups`: the text of /proc/self/cgroup. `read`: a file's text, nothing where it is not there. In a container the path may be that
// of the machine outside: then only the root's file is there, and it is the container's.
std::optional<cgroup_limit> memory_limit_of(std::string_view cgroups,
                                            const std::function<std::optional<std::string>(const std::string& file)>& read);

// Of this process, on this machine.
memory_budget machine_memory();

}  // namespace troupe
