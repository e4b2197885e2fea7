// How a CPU device chooses the algorithm of a convolution with `algorithm = "auto"`. The rule reads
// only the geometry and the level of the CPU, so that all nodes with equal CPUs choose the same
// algorithm. docs/layers.md describes the rule.
#pragma once

#include <cstdint>

#include "ops/conv_algorithm.hpp"

namespace troupe {

// Whether `direct` puts images, and not features, into the elements of a vector. It does so where
// vectors of channels or features would be a quarter empty.
bool over_images(const conv_geometry& g);

// The registers that a CPU device uses. basic: any. wide: 32 registers of 512 bits, which `direct`
// and `winograd` need. tiles: also tile registers of bf16 (AMX).
enum class cpu_level : std::uint8_t { basic, wide, tiles };

// The algorithm of one pass. The result is never `automatic`, and it supports the geometry.
conv_algorithm automatic_choice(const conv_geometry& g, conv_pass pass, cpu_level level);

}  // namespace troupe
