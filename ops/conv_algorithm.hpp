// The table of convolution algorithms: names, what each can do, and the rule behind `auto`. Pure functions of the geometry, so that
// every node of a job chooses alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/geometry.hpp"

namespace troupe {

// Changes whenever a row or the rule does: part of the numerics id.
inline constexpr const char* conv_table_id = "conv3";

enum class conv_pass : std::uint8_t { forward, backward_data, backward_weights };

std::vector<std::string> conv_algorithm_names();  // "auto" first
conv_algorithm conv_algorithm_named(std::string_view name);
std::string name_of(conv_algorithm a);

// Empty when `a` can do convolutions with this kernel, stride, dilation and padding; else what it supports. Batch and extents do not matter.
std::string why_not(conv_algorithm a, const conv_geometry& g);

// Whether `direct` lays its vectors over images rather than over features: channels or features would leave them a quarter empty.
bool over_images(const conv_geometry& g);

// What `auto` stands for: never automatic, always supported. `wide`: the device has 32 registers of 512 bits, for which `direct` and
// `winograd` are written.
conv_algorithm automatic_choice(const conv_geometry& g, conv_pass pass, bool wide);

}  // namespace troupe
