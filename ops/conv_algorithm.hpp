// The convolution algorithms: their names and what each supports. Each device has its own rule for
// `auto` (ops/cpu/conv_rule.hpp). All functions depend only on the geometry (`onednn`: also on the
// build; `bf16x3`: also on the machine), so that all nodes of a job choose the same algorithm.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/geometry.hpp"
#include "ops/shape.hpp"

namespace troupe {

// Changes with every change of the algorithms or of the CPU's selection rule. Part of the numerics
// id.
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

conv_algorithm algorithm_of(const conv_geometry& g, conv_pass p);  // the one that g names
conv_choice choice_of(const conv_geometry& g);

// Interface of layers that are convolutions, for the selection of their algorithms
// (runtime/job/convolutions.hpp).
struct convolving {
  virtual ~convolving() = default;
  virtual conv_geometry geometry(const shape& x) const = 0;  // geometry of one packet, with the algorithms named by the options
};

std::vector<std::string> conv_algorithm_names();  // "auto" first
conv_algorithm conv_algorithm_named(std::string_view name);
std::string name_of(conv_algorithm a);
const char* name_of(conv_pass p);
bool has_f64(conv_algorithm a);  // the other algorithms compute f64 with lowering1

// Empty if `a` supports this kernel, stride, dilation and padding; otherwise the reason why not.
// Batch and extents do not matter.
std::string why_not(conv_algorithm a, const conv_geometry& g);

// Returns true if `from` may pass y to `to` in the device's layout (conv_geometry::own_y and
// own_x): all passes of both use `onednn`, and the features fill the blocks of the library's
// layout.
bool blocks_between(const conv_geometry& from, const conv_geometry& to);

}  // namespace troupe
