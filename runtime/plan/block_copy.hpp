// Copies between a whole parameter and one of its blocks (plan.hpp), whose elements are contiguous.
// The functions access tensor memory, so they run in tasks.
#pragma once

#include "runtime/plan/plan.hpp"

namespace troupe {

class device;

// `part` is backed by memory and has block.count elements; `whole` likewise has all elements of the
// parameter. Both have the same type.
void copy_block_out(device& d, const tensor& whole, const param_block& block, tensor& part);
void copy_block_in(device& d, const tensor& part, const param_block& block, tensor& whole);

}  // namespace troupe
