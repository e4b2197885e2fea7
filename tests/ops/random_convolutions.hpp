// Random geometries of convolutions, and their text in failures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "ops/geometry.hpp"

namespace troupe::test {

// The extents: "b c h w o kh kw sh sw ph pw dh dw groups: 2 3 8 8 4 3 3 1 1 0 0 1 1 1".
inline std::string text_of(const conv_geometry& g) {
  std::string s = "b c h w o kh kw sh sw ph pw dh dw groups:";
  for (const auto v : g.extents()) s += " " + std::to_string(v);
  return s;
}

inline conv_geometry random_geometry(std::mt19937_64& r) {
  const auto upto = [&](std::int64_t n) { return static_cast<std::int64_t>(r() % static_cast<std::uint64_t>(n)) + 1; };
  conv_geometry g;
  g.groups = r() % 3 == 0 ? upto(3) : 1;
  g.batch = r() % 4 == 0 ? 13 + upto(22) : upto(4);
  g.channels = g.groups * upto(r() % 4 == 0 ? 40 : 7);
  g.outputs = g.groups * upto(r() % 4 == 0 ? 70 : 9);
  if (r() % 2 == 0) {  // supported by winograd
    g.kernel_h = g.kernel_w = r() % 2 == 0 ? 3 : 5;
    g.pad_h = upto(g.kernel_h) - 1, g.pad_w = upto(g.kernel_w) - 1;
  } else {
    g.kernel_h = upto(7), g.kernel_w = upto(7);
    g.stride_h = upto(3), g.stride_w = upto(4);
    g.pad_h = upto(4) - 1, g.pad_w = upto(4) - 1;
    if (r() % 3 == 0) g.dilation_h = upto(3), g.dilation_w = upto(3);
  }
  const auto extent = [&](std::int64_t kernel, std::int64_t dilation, std::int64_t pad) {
    const auto least = std::max<std::int64_t>(1, dilation * (kernel - 1) + 1 - 2 * pad);
    return least + (r() % 4 == 0 ? 0 : upto(r() % 5 == 0 && g.batch < 5 ? 80 : 14));
  };
  g.height = extent(g.kernel_h, g.dilation_h, g.pad_h), g.width = extent(g.kernel_w, g.dilation_w, g.pad_w);
  return g;
}

}  // namespace troupe::test
