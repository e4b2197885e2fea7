// Counts the allocations of this process: malloc and related functions are replaced
// (allocations.cpp), and operator new calls them. Sanitizers replace them too; with these nothing
// is counted, and counted() returns false.
#pragma once

#include <cstdint>

namespace troupe::testing_memory {

constexpr std::size_t large_allocation = 4096;

struct allocations {
  std::uint64_t small = 0, large = 0;  // below large_allocation bytes; at or above
  static allocations so_far();
  static bool counted();
};
inline allocations operator-(allocations a, allocations b) { return {a.small - b.small, a.large - b.large}; }

}  // namespace troupe::testing_memory
