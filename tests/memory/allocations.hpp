// Counts what this process asks its allocator for: malloc and its relatives are replaced
// (allocations.cpp), operator new uses them. Not with sanitizers, which replace them too: then
// nothing is counted, and `counted` says so.
#pragma once

#include <cstdint>

namespace troupe::testing_memory {

constexpr std::size_t large_allocation = 4096;

struct allocations {
  std::uint64_t small = 0, large = 0;  // below large_allocation bytes; the others
  static allocations so_far();
  static bool counted();
};
inline allocations operator-(allocations a, allocations b) { return {a.small - b.small, a.large - b.large}; }

}  // namespace troupe::testing_memory
