// Bounds of what a job may ask layers for. Sizes beyond them are mistakes, not models; and they
// keep every product that a layer makes of an extent and an option, or of two options, inside 64
// bits, so that no layer has to look for overflow by itself, plugins' included.
// Errors: none, or thrown as said.  Threads: functions without state.
#pragma once

#include <cstdint>

#include "ops/options.hpp"
#include "ops/shape.hpp"

namespace troupe {

constexpr std::int64_t max_elements = std::int64_t{1} << 40;      // of a tensor, and of all parameters together
constexpr std::int64_t max_extent = (std::int64_t{1} << 31) - 1;  // of one axis, and of an integer among a layer's options

// True when every extent is positive and the product stays within the bounds.
bool sane(const shape& s);

// Every integer of a layer's options, alone or in a list or in a table, is within max_extent.
// Throws option_error, which names it.
void check_numbers(const options& o);

}  // namespace troupe
