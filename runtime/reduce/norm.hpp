// The sum of squares of a parameter's gradient, computed from partial sums of its parts. It has the
// same bits however the parameter is cut: sums are combined in the fixed tree of packet_tree.hpp
// over groups of 16 elements. Each part yields a few partial sums (at most two for each doubling of
// its length). Clipping by norm adds the sums of the parameters in layer order (ops/clip.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ops/tensor.hpp"
#include "runtime/messages/square_sum.hpp"

namespace troupe {

class device;

// Elements per leaf; shards cut a parameter only at multiples of this (plan/plan_blocks.cpp).
inline constexpr std::int64_t squares_group = 16;

// The partial sums of `part`, elements [begin, begin + part.count()) of a parameter of `total`
// elements. Both ends must be multiples of squares_group, unless the end is `total`. `found` is
// complete when the task is over.
using square_sums = std::shared_ptr<std::vector<square_sum>>;
void find_square_sums(device& dev, const tensor& part, std::int64_t begin, std::int64_t total, const square_sums& found);
// The same for a part of whole rows of `columns` elements: one sum per row, with node {row, 1}; the
// rows are numbered from `first_row`.
void find_square_sums_of_rows(device& dev, const tensor& part, std::int64_t columns, std::int64_t first_row,
                              const square_sums& found);

// The sum over the whole parameter, from the partial sums of all its parts in any order; it has the
// bits of device::sum_squares of the whole. Nullopt if a part is missing. A repeated part counts
// once.
std::optional<double> sum_of_squares(const std::vector<square_sum>& parts, std::int64_t total);
// The sum over rows, in row order. Nullopt unless every row is there exactly once.
std::optional<double> sum_of_rows(std::vector<square_sum> parts, std::int64_t rows);

}  // namespace troupe
