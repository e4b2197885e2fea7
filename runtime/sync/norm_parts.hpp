// The parts over which the norm of a parameter's gradient is summed, chosen so that its bits do not
// depend on the size of blocks (topology.max_block). If all blocks of the parameter begin at groups
// of elements (reduce/norm.hpp), the whole parameter is one part, for any number of shards and
// blocks. If a placed layer is cut elsewhere, each of its parts is summed by itself: over the
// part's own groups of elements or, if the part is a range of columns, over its rows. Pure
// functions.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/plan.hpp"

namespace troupe {

struct norm_part {
  bool rows = false;                  // summed row by row
  std::int64_t total = 0;             // number of rows, or of elements
  std::vector<std::uint32_t> blocks;  // ids of its blocks, in order
};

// The parts of parameter `param`, which has `elements` elements, in the order in which they are
// added.
std::vector<norm_part> norm_parts(const std::vector<param_block>& blocks, std::uint32_t param, std::int64_t elements);

// The position of a block in its part: first row or element, and their number in the part.
struct place_in_part {
  std::int64_t begin = 0, total = 0;
};
place_in_part place_in_norm_part(const std::vector<param_block>& blocks, const param_block& b, std::int64_t elements);

}  // namespace troupe
