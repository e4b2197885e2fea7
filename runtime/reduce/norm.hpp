// The sum of squares of a parameter's gradient, taken in parts by whoever has them, with the same
// bits however the parameter is cut: the fixed tree of packet_tree.hpp over groups of 16 elements.
// Each part sends a few partial sums (at most two for each doubling of its length); clipping by
// norm adds up the parameters in layer order (ops/clip.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ops/tensor.hpp"
#include "ops/tree/packet_tree.hpp"

namespace troupe {

class device;

// Elements of one leaf; shards cut a parameter only at multiples of it (plan/plan_blocks.cpp).
inline constexpr std::int64_t squares_group = 16;

struct square_sum {
  tree_node node;  // in groups
  double sum = 0.0;
};

// Of `part`, which is elements [begin, begin + part.count()) of a parameter of `total`; begin is a
// multiple of squares_group, and so is the end unless it is the parameter's own. In `found` when
// the task is over.
using square_sums = std::shared_ptr<std::vector<square_sum>>;
void find_square_sums(device& dev, const tensor& part, std::int64_t begin, std::int64_t total, const square_sums& found);
// Of a part that consists of whole rows of `columns`: one sum a row, node {its number, 1}, of which
// `first_row` is the first.
void find_square_sums_of_rows(device& dev, const tensor& part, std::int64_t columns, std::int64_t first_row,
                              const square_sums& found);

// Of the whole parameter, from the sums of all its parts in any order: the bits of
// device::sum_squares of the whole. None while a part is missing; a part that comes twice counts
// once.
std::optional<double> sum_of_squares(const std::vector<square_sum>& parts, std::int64_t total);
// Of the sums of rows, row after row. None while one of `rows` is missing.
std::optional<double> sum_of_rows(std::vector<square_sum> parts, std::int64_t rows);

}  // namespace troupe
