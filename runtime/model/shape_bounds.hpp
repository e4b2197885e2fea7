// Upper bounds of tensor extents and integer options. Within them every product of an extent and an
// option, or of two options, fits into 64 bits, so layers (of plugins too) need no overflow checks.
// Errors: none, or exceptions as documented below.  Threads: functions without state.
#pragma once

#include <cstdint>

#include "ops/options.hpp"
#include "ops/shape.hpp"

namespace troupe {

constexpr std::int64_t max_elements = std::int64_t{1} << 40;      // elements of a tensor, and of all parameters together
constexpr std::int64_t max_extent = (std::int64_t{1} << 31) - 1;  // of one axis, and of an integer option of a layer

// Returns true if every extent is positive and the product is within the bounds.
bool sane(const shape& s);

// Throws option_error, which names the option, if an integer of a layer's options (alone, in a list
// or in a table) is beyond max_extent.
void check_numbers(const options& o);

}  // namespace troupe
