// A pool of memory blocks by size class. A training step requests the same sizes repeatedly; after
// the first step no request needs malloc. release_unused() frees blocks that only an earlier peak
// needed. A block's bookkeeping (the storage and its reference counts) precedes the data, so an
// allocation costs a lock and a few writes. Blocks come from the heap or from an arena
// (ops/arena.hpp). With an arena, only the data is in it, so other processes cannot access the
// bookkeeping. If the arena is exhausted, blocks come from the heap.
// Invariant: a block is either held by one shared_ptr control block or in its class's free list.
// Threads: all members may be called from any thread.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/arena.hpp"
#include "ops/device.hpp"

namespace troupe::cpu {

class block_pool : public std::enable_shared_from_this<block_pool> {
 public:
  explicit block_pool(std::shared_ptr<arena> from = nullptr);
  block_pool(const block_pool&) = delete;
  block_pool& operator=(const block_pool&) = delete;
  ~block_pool();

  // At least `bytes` bytes, aligned to 64, followed by 64 spare bytes that may be read and written.
  std::shared_ptr<storage> allocate(std::size_t bytes);
  device::pool_statistics statistics() const;
  // Frees the blocks that have been unused since the last call, so two calls free every block that
  // is unused now. Returns the number of bytes.
  std::size_t release_unused();
  static std::size_t release_unused_of_all();          // for all pools of this process
  static device::pool_statistics statistics_of_all();  // sums; the peak is the sum of the pools' peaks
  std::uint64_t made_beyond() const;                   // number of heap blocks created because the arena was exhausted

 private:
  static constexpr std::size_t header = 256, spare = 64;
  static constexpr std::size_t classes = 256;
  struct block {
    storage view;
    std::size_t size_class = 0;
    slab memory;  // the data's memory if it comes from the arena
  };
  template <class T>
  struct header_allocator;

  struct free_list {
    std::vector<block*> blocks;  // the last one is used next
    std::size_t unused = 0;      // number of blocks, from the front, unused since the last release
  };

  static std::size_t class_of(std::size_t bytes);
  static std::size_t bytes_of(std::size_t size_class);
  block* make(std::size_t size);
  void give_back(block* b);
  void free_block(block* b) const;

  const std::shared_ptr<arena> arena_;
  mutable std::mutex mutex_;
  std::array<free_list, classes> free_;
  device::pool_statistics statistics_;
  std::uint64_t beyond_ = 0;
};

}  // namespace troupe::cpu
