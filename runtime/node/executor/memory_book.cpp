#include "runtime/node/executor/memory_book.hpp"

#include <algorithm>

#include "runtime/node/machine_memory.hpp"

namespace troupe::control {

void memory_book::promise(part p, std::uint64_t bytes) {
  const std::lock_guard guard(lock_);
  parts_[static_cast<std::size_t>(p)].promised = bytes;
}

void memory_book::holds(part p, std::uint64_t bytes) {
  const std::lock_guard guard(lock_);
  parts_[static_cast<std::size_t>(p)].held = bytes;
}

memory_budget memory_book::open_to(part p) const {
  const std::lock_guard guard(lock_);
  const auto& mine = parts_[static_cast<std::size_t>(p)];
  const auto& other = parts_[1 - static_cast<std::size_t>(p)];
  // Memory that the other part has allocated is not free any more, so only the rest of its
  // reservation is subtracted.
  const auto still_to_come = other.promised - std::min(other.promised, other.held);
  return job_memory(memory_of_this_process(), mine.held, still_to_come);
}

}  // namespace troupe::control
