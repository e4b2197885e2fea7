// From a tensor to the region that its memory lies in, if it lies in one: to be sent as (region,
// offset, length).
#pragma once

#include <memory>

#include "ops/memory_region.hpp"
#include "ops/tensor.hpp"

namespace troupe {

// The deleter of a block that lies in a region, by which it is known; what happens at the end is
// for the control block's allocator, as in cpu/block_pool.cpp. So storage is no larger for those
// that lie in none.
struct lies_in {
  const memory_region* region;  // alive as long as the block
  void operator()(storage*) const {}
};

// Alive as long as the tensor's memory is. Null: it lies in none.
inline std::shared_ptr<const memory_region> region_of(const tensor& t) {
  const auto* d = t.backed() ? std::get_deleter<lies_in>(t.block()) : nullptr;
  return d != nullptr ? std::shared_ptr<const memory_region>(t.block(), d->region) : nullptr;
}

}  // namespace troupe
