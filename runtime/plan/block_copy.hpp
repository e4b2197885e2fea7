// Between a whole parameter and one of its blocks (plan.hpp), whose elements lie without a gap. For
// jobs: they touch memory.
#pragma once

#include "runtime/plan/plan.hpp"

namespace troupe {

class device;

// `part` is backed and has block.count elements; so has `whole` as many as the parameter. Types are
// equal.
void copy_block_out(device& d, const tensor& whole, const param_block& block, tensor& part);
void copy_block_in(device& d, const tensor& part, const param_block& block, tensor& whole);

}  // namespace troupe
