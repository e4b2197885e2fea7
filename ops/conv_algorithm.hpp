// The table of convolution algorithms: names, what each can do, and the rule behind `auto`. Pure functions of the geometry (and, for
// `onednn`, of the build; for `bf16x3`, of the machine), so that every node of a job chooses alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/geometry.hpp"
#include "ops/shape.hpp"

namespace troupe {

// Changes whenever a row or the rule does: part of the numerics id.
inline constexpr const char* conv_table_id = "conv9";

inline constexpr conv_pass conv_passes_all[] = {conv_pass::forward, conv_pass::backward_data, conv_pass::backward_weights};

// The algorithm of each pass.
struct conv_choice {
  conv_algorithm forward = conv_algorithm::automatic, backward_data = conv_algorithm::automatic,
                 backward_weights = conv_algorithm::automatic;
  conv_algorithm& operator[](conv_pass p) {
    return p == conv_pass::forward ? forward : p == conv_pass::backward_data ? backward_data : backward_weights;
  }
  conv_algorithm operator[](conv_pass p) const { return const_cast<conv_choice&>(*this)[p]; }
  friend bool operator==(const conv_choice&, const conv_choice&) = default;
};

conv_algorithm algorithm_of(const conv_geometry& g, conv_pass p);  // as g has it
conv_choice choice_of(const conv_geometry& g);

// What a layer that is a convolution also is, for those who choose its algorithms (runtime/job/convolutions.hpp).
struct convolving {
  virtual ~convolving() = default;
  virtual conv_geometry geometry(const shape& x) const = 0;  // of one packet, with the algorithms that the options name
};

std::vector<std::string> conv_algorithm_names();  // "auto" first
conv_algorithm conv_algorithm_named(std::string_view name);
std::string name_of(conv_algorithm a);
const char* name_of(conv_pass p);
bool has_f64(conv_algorithm a);  // the others compute f64 as lowering1 does

// Empty when `a` can do convolutions with this kernel, stride, dilation and padding; else what it supports. Batch and extents do not matter.
std::string why_not(conv_algorithm a, const conv_geometry& g);

// Whether `from` may leave its y to `to` as the device likes it (conv_geometry::own_y and own_x): all passes of both are named `onednn`,
// and features fill the blocks that the library lays them in.
bool blocks_between(const conv_geometry& from, const conv_geometry& to);

// Whether `direct` lays its vectors over images rather than over features: channels or features would leave them a quarter empty.
bool over_images(const conv_geometry& g);

// What a CPU device was made with: 32 registers of 512 bits, for which `direct` and `winograd` are written; tiles of bf16 too.
enum class cpu_level : std::uint8_t { basic, wide, tiles };

// What `auto` stands for: never automatic, always supported.
conv_algorithm automatic_choice(const conv_geometry& g, conv_pass pass, cpu_level level);

}  // namespace troupe
