// Runs a function in a child process, for libraries that a damaged file can make crash, loop or
// take all memory. The death of the child is an error of this process.
//
// The child is a fork, so that it needs no program of its own: Troupe also runs in programs of
// others (Python). The function may allocate memory and must take no lock that another thread can
// hold. The child has no descriptors but `keep`, default signal handlers, no core file, and is the
// first process that the system ends when memory is short.
// Errors: values. Threads: any.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/result.hpp"

namespace troupe {

struct child_limits {
  std::uint64_t memory = 0;            // bytes beyond those that this process has
  std::uint64_t cpu_seconds = 5;       // then the child is ended, unless it calls allow_cpu()
  std::uint64_t most_cpu_seconds = 5;  // that allow_cpu() can allow
};

// A reply is cut after this many bytes.
constexpr std::size_t most_child_reply = 4000;

// `work`: makes the reply, in the child; an exception ends the child. `keep`: a descriptor that
// stays open in the child, under the number that `work` is called with.
expected<std::string> in_child(const child_limits& limits, int keep, const std::function<std::string(int keep)>& work);

// Within `work`: changes the limit, which counts from the start of the child.
void allow_cpu(std::uint64_t seconds);

}  // namespace troupe
