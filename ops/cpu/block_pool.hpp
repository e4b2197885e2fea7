// Memory blocks by size class, kept for reuse: a training step asks for the same sizes again and
// again, and after the first step gets every one of them without malloc. release_unused() frees
// what only an earlier peak has needed. A block carries its bookkeeping (the storage and its
// reference counts) in front of the data, so that handing one out costs a lock and a few writes.
// Blocks come from the heap or from an arena (ops/arena.hpp). With an arena only the data lies
// there: bookkeeping is not for others to see or spoil. What the arena cannot give comes from the
// heap.
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

  // At least `bytes` bytes, aligned to 64, with 64 more behind them that may be read and written.
  std::shared_ptr<storage> allocate(std::size_t bytes);
  device::pool_statistics statistics() const;
  // Frees the blocks that have been unused since the last call: two calls free every block that is
  // unused now. Bytes.
  std::size_t release_unused();
  static std::size_t release_unused_of_all();  // pools of this process
  std::uint64_t made_beyond() const;           // blocks from the heap, because the arena had no more

 private:
  static constexpr std::size_t header = 256, spare = 64;
  static constexpr std::size_t classes = 256;
  struct block {
    storage view;
    std::size_t size_class = 0;
    slab memory;  // of the data, if the arena's
  };
  template <class T>
  struct header_allocator;

  struct free_list {
    std::vector<block*> blocks;  // the last one is used next
    std::size_t unused = 0;      // the first so many have been here since the last release
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
