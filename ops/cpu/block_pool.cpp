#include "ops/cpu/block_pool.hpp"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <set>

#include "ops/region_of.hpp"

namespace troupe::cpu {

namespace {

// Large blocks use huge pages where available. Kernels access them with strides of whole small
// pages, channel by channel, which would need a TLB entry each. Only memory inside the block is
// advised, so usage does not grow.
void* aligned_memory(std::size_t bytes) {
  constexpr std::size_t huge = std::size_t{1} << 21, line = 64;
  if (bytes < huge) return std::aligned_alloc(line, bytes);
  void* memory = nullptr;  // aligned_alloc would require a multiple of the alignment
  if (::posix_memalign(&memory, huge, bytes) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  (void)::madvise(memory, bytes / huge * huge, MADV_HUGEPAGE);  // a hint; may fail
#endif
  return memory;
}

// All pools of this process. A pool's destructor waits for a release in progress.
struct all_pools {
  std::mutex mutex;
  std::set<block_pool*> list;
  static all_pools& get() {
    static auto* const all = new all_pools;  // pools may outlive static objects
    return *all;
  }
};

}  // namespace

block_pool::block_pool(std::shared_ptr<arena> from) : arena_(std::move(from)) {
  auto& all = all_pools::get();
  std::lock_guard lock(all.mutex);
  all.list.insert(this);
}

std::size_t block_pool::release_unused_of_all() {
  auto& all = all_pools::get();
  std::lock_guard lock(all.mutex);
  std::size_t bytes = 0;
  for (auto* p : all.list) bytes += p->release_unused();
  return bytes;
}

device::pool_statistics block_pool::statistics_of_all() {
  auto& all = all_pools::get();
  std::lock_guard lock(all.mutex);
  device::pool_statistics sum;
  for (const auto* p : all.list) {
    const auto s = p->statistics();
    sum.bytes_held += s.bytes_held;
    sum.bytes_in_use += s.bytes_in_use;
    sum.peak_bytes_in_use += s.peak_bytes_in_use;
    sum.blocks_made += s.blocks_made;
    sum.blocks_reused += s.blocks_reused;
  }
  return sum;
}

// Allocator of a shared_ptr's control block: places it in the header of the memory block. Its
// deallocation is the last use of the block and returns it to the pool. Keeps the pool alive.
template <class T>
struct block_pool::header_allocator {
  using value_type = T;
  std::shared_ptr<block_pool> pool;
  block* owner;

  header_allocator(std::shared_ptr<block_pool> p, block* b) : pool(std::move(p)), owner(b) {}
  template <class U>
  header_allocator(const header_allocator<U>& o) : pool(o.pool), owner(o.owner) {}

  T* allocate(std::size_t n) {
    static_assert(sizeof(block) + sizeof(T) + alignof(T) <= header && alignof(T) <= alignof(std::max_align_t));
    (void)n;
    constexpr std::size_t at = (sizeof(block) + alignof(T) - 1) / alignof(T) * alignof(T);
    return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(owner) + at);
  }
  void deallocate(T* p, std::size_t n) {
    (void)p, (void)n;
    pool->give_back(owner);
  }
  template <class U>
  bool operator==(const header_allocator<U>& o) const {
    return owner == o.owner;
  }
};

// Four classes per power of two from 256 bytes on, so at most a quarter of a block is wasted.
std::size_t block_pool::class_of(std::size_t bytes) {
  if (bytes <= 256) return 0;
  const auto log = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;  // 2^log < bytes <= 2^(log + 1)
  const std::size_t quarter = ((bytes - 1) >> (log - 2)) & 3;
  return (log - 8) * 4 + quarter + 1;
}

std::size_t block_pool::bytes_of(std::size_t size_class) {
  if (size_class == 0) return 256;
  const std::size_t log = (size_class - 1) / 4 + 8, quarter = (size_class - 1) % 4;
  return (std::size_t{1} << log) + ((quarter + 1) << (log - 2));
}

// Creates a block with `size` bytes of uninitialised data, plus 64 spare bytes.
block_pool::block* block_pool::make(std::size_t size) {
  slab of_arena;
  if (arena_) of_arena = arena_->take(size + spare);
  void* memory = of_arena.data ? aligned_memory(header) : aligned_memory(header + size + spare);
  if (memory == nullptr) {
    if (of_arena.data) arena_->give_back(of_arena);
    throw std::bad_alloc();
  }
  auto* b = new (memory) block{};
  b->memory = std::move(of_arena);
  return b;
}

std::shared_ptr<storage> block_pool::allocate(std::size_t bytes) {
  const std::size_t size_class = class_of(bytes), size = bytes_of(size_class);
  block* b = nullptr;
  {
    std::lock_guard lock(mutex_);
    auto& list = free_[size_class];
    if (!list.blocks.empty()) {
      b = list.blocks.back();
      list.blocks.pop_back();
      list.unused = std::min(list.unused, list.blocks.size());
      ++statistics_.blocks_reused;
    } else {
      ++statistics_.blocks_made;
      statistics_.bytes_held += size;
    }
    statistics_.bytes_in_use += size;
    statistics_.peak_bytes_in_use = std::max(statistics_.peak_bytes_in_use, statistics_.bytes_in_use);
  }
  if (b == nullptr) {
    b = make(size);
    b->size_class = size_class;
    if (arena_ && !b->memory.data) {
      std::lock_guard lock(mutex_);
      ++beyond_;
    }
  }
  b->view = storage{};
  b->view.data = b->memory.data ? b->memory.data : reinterpret_cast<std::byte*>(b) + header;
  b->view.bytes = bytes;
  if (b->memory.region)
    return std::shared_ptr<storage>(&b->view, lies_in{b->memory.region.get()}, header_allocator<storage>(shared_from_this(), b));
  return std::shared_ptr<storage>(
      &b->view, [](storage*) {}, header_allocator<storage>(shared_from_this(), b));
}

void block_pool::give_back(block* b) {
  std::lock_guard lock(mutex_);
  statistics_.bytes_in_use -= bytes_of(b->size_class);
  free_[b->size_class].blocks.push_back(b);
}

void block_pool::free_block(block* b) const {
  if (b->memory.data) arena_->give_back(b->memory);
  b->~block();
  std::free(b);
}

std::size_t block_pool::release_unused() {
  std::vector<block*> unused;
  std::size_t bytes = 0;
  {
    std::lock_guard lock(mutex_);
    for (auto& list : free_) {
      const auto end = list.blocks.begin() + static_cast<std::ptrdiff_t>(list.unused);
      unused.insert(unused.end(), list.blocks.begin(), end);
      list.blocks.erase(list.blocks.begin(), end);
      list.unused = list.blocks.size();
    }
    for (const block* b : unused) bytes += bytes_of(b->size_class);
    statistics_.bytes_held -= bytes;
  }
  for (block* b : unused) free_block(b);
  return bytes;
}

device::pool_statistics block_pool::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_;
}

std::uint64_t block_pool::made_beyond() const {
  std::lock_guard lock(mutex_);
  return beyond_;
}

block_pool::~block_pool() {
  {
    auto& all = all_pools::get();
    std::lock_guard lock(all.mutex);
    all.list.erase(this);
  }
  for (auto& list : free_)
    for (block* b : list.blocks) free_block(b);
}

}  // namespace troupe::cpu
