// Memory of received payloads: blocks aligned to 64 bytes, kept for reuse in size classes, so that
// a steady stream neither allocates nor touches fresh pages. The deleter of a block returns it to
// the pool, from any thread, also after the transport is gone. Blocks come from the heap, or from
// an arena while it has free space (ops/arena.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ops/arena.hpp"
#include "runtime/node/net/credit.hpp"

namespace troupe::net {

class buffer_pool : public std::enable_shared_from_this<buffer_pool> {
 public:
  static constexpr std::size_t alignment = 64;

  static std::shared_ptr<buffer_pool> make(std::uint64_t keep_bytes, std::shared_ptr<arena> from = nullptr);
  buffer_pool(const buffer_pool&) = delete;
  buffer_pool& operator=(const buffer_pool&) = delete;
  ~buffer_pool();

  // Charges frame_cost(bytes) to `account` unless it is null. Returns null if out of memory.
  std::shared_ptr<std::byte> take(std::size_t bytes, std::shared_ptr<credit_account> account);
  std::uint64_t kept_bytes() const;
  // Frees the blocks that were not used since the last call, so two calls free every block that is
  // unused now. Returns the bytes freed.
  std::uint64_t release_unused();
  std::uint64_t made_beyond() const;  // number of blocks from the heap because the arena was full

  // Four classes per power of two: at most a quarter of a block is wasted.
  static std::size_t class_size(std::size_t bytes);

 private:
  friend struct block_deleter;
  struct block {
    std::byte* data = nullptr;
    std::size_t capacity = 0;
    slab of_arena;  // its data is null for a block from the heap
  };
  buffer_pool(std::uint64_t keep_bytes, std::shared_ptr<arena> from) : keep_bytes_(keep_bytes), arena_(std::move(from)) {}
  block make_block(std::size_t capacity);
  void give_back(block&& b) noexcept;
  void free_memory(const block& b) noexcept;

  const std::uint64_t keep_bytes_;
  const std::shared_ptr<arena> arena_;
  mutable std::mutex mutex_;
  std::uint64_t kept_ = 0, beyond_ = 0;
  struct free_list {
    std::vector<block> blocks;  // the last one is used next
    std::size_t unused = 0;     // number of blocks at the front that were not used since the last release
  };
  std::unordered_map<std::size_t, free_list> free_;  // by capacity
};

}  // namespace troupe::net
