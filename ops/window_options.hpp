// Values of the options of convolutions and pooling.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <variant>

#include "ops/options.hpp"
#include "ops/shape.hpp"

namespace troupe {

using by_axes = std::array<std::int64_t, 2>;  // height, width

// `kernel`, or `kernel_h` and `kernel_w` where they are set. 0: not set.
inline by_axes kernel_of(const options& o) {
  auto kernel = o.by_axis("kernel");
  if (const auto h = o.integer("kernel_h"); h > 0) kernel[0] = h;
  if (const auto w = o.integer("kernel_w"); w > 0) kernel[1] = w;
  return kernel;
}

inline std::string text_of(const by_axes& v) {
  return v[0] == v[1] ? std::to_string(v[0]) : "[" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + "]";
}

// The output of images, given the extents by axis: [N, C, height, width], or [N, C, width] where
// the input is [N, C, L], which counts as images of height 1.
inline shape images_like(const shape& x, std::int64_t channels, const by_axes& extents) {
  return x.rank() == 4 ? shape{x[0], channels, extents[0], extents[1]} : shape{x[0], channels, extents[1]};
}

// Steps of padding before and behind a sequence of `steps`, of sequence_convolution.
inline by_axes sequence_padding(const options& o, std::int64_t steps) {
  const auto reach = o.integer("dilation") * (o.integer("kernel") - 1), stride = o.integer("stride");
  const auto& pad = o.values.at("pad");
  if (const auto* number = std::get_if<std::int64_t>(&pad)) return {*number, *number};
  if (std::get<std::string>(pad) == "causal") return {reach, 0};
  const auto all = std::max<std::int64_t>(0, (steps - 1) / stride * stride + reach + 1 - steps);
  return {all / 2, all - all / 2};
}

}  // namespace troupe
