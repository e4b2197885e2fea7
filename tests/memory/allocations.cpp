#include "tests/memory/allocations.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define TROUPE_COUNTS 0
#else
#define TROUPE_COUNTS 1
#endif

namespace troupe::testing_memory {
namespace {

std::atomic<std::uint64_t> small_ones{0}, large_ones{0};

[[maybe_unused]] void count(std::size_t bytes) {
  (bytes < large_allocation ? small_ones : large_ones).fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

allocations allocations::so_far() { return {small_ones.load(), large_ones.load()}; }
bool allocations::counted() { return TROUPE_COUNTS != 0; }

}  // namespace troupe::testing_memory

#if TROUPE_COUNTS
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): names of glibc's
// allocator functions
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

void* malloc(std::size_t bytes) {
  troupe::testing_memory::count(bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  troupe::testing_memory::count(n * bytes);
  return __libc_calloc(n, bytes);
}
void* realloc(void* p, std::size_t bytes) {
  troupe::testing_memory::count(bytes);
  return __libc_realloc(p, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  troupe::testing_memory::count(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  troupe::testing_memory::count(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** to, std::size_t alignment, std::size_t bytes) {
  troupe::testing_memory::count(bytes);
  *to = __libc_memalign(alignment, bytes);
  return *to ? 0 : ENOMEM;
}
}
#endif
