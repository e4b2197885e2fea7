#include "runtime/plan/block_copy.hpp"

#include "ops/device.hpp"

namespace troupe {

void copy_block_out(device& d, const tensor& whole, const param_block& block, tensor& part) {
  if (block.run == 0) return d.copy(whole.slice(block.begin, {block.count}), part);
  d.copy_block({.rows = block.count / block.run,
                .length = block.run,
                .from_offset = block.begin,
                .from_stride = block.stride,
                .to_offset = 0,
                .to_stride = block.run},
               whole, part);
}

void copy_block_in(device& d, const tensor& part, const param_block& block, tensor& whole) {
  if (block.run == 0) {
    auto into = whole.slice(block.begin, {block.count});
    return d.copy(part, into);
  }
  d.copy_block({.rows = block.count / block.run,
                .length = block.run,
                .from_offset = 0,
                .from_stride = block.run,
                .to_offset = block.begin,
                .to_stride = block.stride},
               part, whole);
}

}  // namespace troupe
