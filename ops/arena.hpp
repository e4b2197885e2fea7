// Where pools get their blocks from, if not from the heap: a region that a device, another process
// or a network card knows of. Pools that draw from one: cpu::block_pool, net::buffer_pool. They
// keep what they have taken for reuse, and give it back when they go.
#pragma once

#include <cstddef>
#include <memory>

#include "ops/memory_region.hpp"

namespace troupe {

struct slab {
  std::byte* data = nullptr;  // aligned to 64; null: there is none
  std::size_t bytes = 0;
  std::shared_ptr<const memory_region> region;  // [data, data + bytes) lies in it
};

// Any thread.
class arena {
 public:
  virtual ~arena() = default;
  // At least `bytes` bytes; without data when the arena has no more. Pools then turn to the heap,
  // and count it.
  virtual slab take(std::size_t bytes) = 0;
  virtual void give_back(const slab& s) noexcept = 0;
};

}  // namespace troupe
