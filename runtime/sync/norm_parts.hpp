// What the norm of a gradient is summed over, so that its bits do not depend on what a message
// carries (topology.max_block): a parameter as a whole where its blocks begin at groups of elements
// (reduce/norm.hpp), however many shards and blocks there are; where parts of a layer have it and
// are cut elsewhere, each part: its own groups of elements, or, where it is columns, its rows.
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/plan.hpp"

namespace troupe {

struct norm_part {
  bool rows = false;
  std::int64_t total = 0;             // rows, or elements
  std::vector<std::uint32_t> blocks;  // their ids, in order
};

// Of a parameter of so many elements, in the order in which they are added.
std::vector<norm_part> norm_parts(const std::vector<param_block>& blocks, std::uint32_t param, std::int64_t elements);

// Where a block lies in its part.
struct place_in_part {
  std::int64_t begin = 0, total = 0;  // rows, or elements
};
place_in_part place_in_norm_part(const std::vector<param_block>& blocks, const param_block& b, std::int64_t elements);

}  // namespace troupe
