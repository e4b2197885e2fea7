#include "runtime/node/net/buffer_pool.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <new>
#include <utility>

#include "runtime/node/net/payload_deleters.hpp"

namespace troupe::net {

std::shared_ptr<buffer_pool> buffer_pool::make(std::uint64_t keep_bytes, std::shared_ptr<arena> from) {
  return std::shared_ptr<buffer_pool>(new buffer_pool(keep_bytes, std::move(from)));
}

buffer_pool::~buffer_pool() {
  for (auto& [size, list] : free_)
    for (const block& b : list.blocks) free_memory(b);
}

std::size_t buffer_pool::class_size(std::size_t bytes) {
  constexpr std::size_t smallest = 256;
  if (bytes <= smallest) return smallest;
  const std::size_t quarter = std::bit_floor(bytes - 1) / 4;
  return (bytes + quarter - 1) / quarter * quarter;
}

// Returns a block with null `data` if out of memory.
buffer_pool::block buffer_pool::make_block(std::size_t capacity) {
  block b{nullptr, capacity, {}};
  if (arena_) b.of_arena = arena_->take(capacity);
  b.data = b.of_arena.data;
  if (b.data) return b;
  b.data = static_cast<std::byte*>(::operator new (capacity, std::align_val_t{alignment}, std::nothrow));
  if (arena_ && b.data) {
    const std::lock_guard lock(mutex_);
    ++beyond_;
  }
  return b;
}

void buffer_pool::free_memory(const block& b) noexcept {
  if (b.of_arena.data) return arena_->give_back(b.of_arena);
  ::operator delete (b.data, std::align_val_t{alignment});
}

std::shared_ptr<std::byte> buffer_pool::take(std::size_t bytes, std::shared_ptr<credit_account> account) {
  const std::size_t capacity = class_size(bytes);
  block b;
  {
    const std::lock_guard lock(mutex_);
    const auto found = free_.find(capacity);
    if (found != free_.end() && !found->second.blocks.empty()) {
      auto& list = found->second;
      b = std::move(list.blocks.back());
      list.blocks.pop_back();
      list.unused = std::min(list.unused, list.blocks.size());
      kept_ -= capacity;
    }
  }
  if (b.data == nullptr) b = make_block(capacity);
  if (b.data == nullptr) return nullptr;
  const std::uint64_t cost = frame_cost(bytes);
  if (account) account->charge(cost);
  try {
    auto* at = b.data;
    return {at, block_deleter{{std::move(account), cost}, shared_from_this(), std::move(b), {nullptr, 0}}};
  } catch (const std::bad_alloc&) {
    return nullptr;  // the shared_ptr has already run the deleter
  }
}

void buffer_pool::give_back(block&& b) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (kept_ + b.capacity <= keep_bytes_) {
      const auto capacity = b.capacity;
      free_[capacity].blocks.push_back(b);
      kept_ += capacity;
      return;
    }
  } catch (const std::bad_alloc&) {  // no memory for the list entry: free the block
  }
  free_memory(b);
}

std::uint64_t buffer_pool::release_unused() {
  std::vector<block> unused;
  std::uint64_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [capacity, list] : free_) {
      const auto end = list.blocks.begin() + static_cast<std::ptrdiff_t>(list.unused);
      unused.insert(unused.end(), std::make_move_iterator(list.blocks.begin()), std::make_move_iterator(end));
      list.blocks.erase(list.blocks.begin(), end);
      bytes += capacity * list.unused;
      list.unused = list.blocks.size();
    }
    kept_ -= bytes;
  }
  for (const block& b : unused) free_memory(b);
  return bytes;
}

std::uint64_t buffer_pool::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

std::uint64_t buffer_pool::made_beyond() const {
  const std::lock_guard lock(mutex_);
  return beyond_;
}

}  // namespace troupe::net
