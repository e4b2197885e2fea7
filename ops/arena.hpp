// A source of pool memory other than the heap: a region that a device, another process or a network
// card can access. cpu::block_pool and net::buffer_pool can use one. They retain slabs for reuse
// and return them when they are destroyed.
#pragma once

#include <cstddef>
#include <memory>

#include "ops/memory_region.hpp"

namespace troupe {

struct slab {
  std::byte* data = nullptr;  // aligned to 64 bytes; null: no memory
  std::size_t bytes = 0;
  std::shared_ptr<const memory_region> region;  // contains [data, data + bytes)
};

// Safe from any thread.
class arena {
 public:
  virtual ~arena() = default;
  // Returns at least `bytes` bytes, or a slab without data if the arena is exhausted. Pools then
  // use the heap and count this.
  virtual slab take(std::size_t bytes) = 0;
  virtual void give_back(const slab& s) noexcept = 0;
};

}  // namespace troupe
