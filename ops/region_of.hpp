// Finds the memory region of a tensor, so that it can be sent as (region, offset, length).
#pragma once

#include <memory>

#include "ops/memory_region.hpp"
#include "ops/tensor.hpp"

namespace troupe {

// Deleter of a block inside a region, which records the region. The control block's allocator frees
// the memory (cpu/block_pool.cpp). A deleter keeps `storage` small for blocks outside regions.
struct lies_in {
  const memory_region* region;  // outlives the block
  void operator()(storage*) const {}
};

// The region of the tensor's memory; the pointer keeps the memory alive. Null if it has none.
inline std::shared_ptr<const memory_region> region_of(const tensor& t) {
  const auto* d = t.backed() ? std::get_deleter<lies_in>(t.block()) : nullptr;
  return d != nullptr ? std::shared_ptr<const memory_region>(t.block(), d->region) : nullptr;
}

}  // namespace troupe
