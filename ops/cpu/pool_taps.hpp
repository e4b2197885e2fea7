// Row parameters of the average pooling kernels: the outputs that a tap contributes to, and the
// width of each output's window.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/cpu/kernels.hpp"

namespace troupe::cpu {

// For each tap, the outputs o of a row with 0 <= o * stride + tap - pad < width.
inline std::vector<tap_range> tap_ranges(const pool_geometry& g) {
  std::vector<tap_range> taps;
  for (i64 j = 0; j < g.kernel_w; ++j) {
    const i64 first = g.pad_w - j, last = g.width - 1 + g.pad_w - j;
    const i64 low = std::min(first <= 0 ? 0 : (first + g.stride_w - 1) / g.stride_w, g.out_w);
    const i64 high = std::min(last < 0 ? 0 : last / g.stride_w + 1, g.out_w);
    taps.push_back({low, std::max(low, high)});
  }
  return taps;
}

// Extent of each output's window along its row, clipped to the image, or to image plus padding.
template <class T>
std::vector<T> column_extents(const pool_geometry& g) {
  std::vector<T> extents;
  for (i64 o = 0; o < g.out_w; ++o) {
    const i64 start = o * g.stride_w - g.pad_w;
    const i64 end = std::min(start + g.kernel_w, g.width + (g.count_padding ? g.pad_w : 0));
    extents.push_back(static_cast<T>(end - (g.count_padding ? start : std::max<i64>(start, 0))));
  }
  return extents;
}

}  // namespace troupe::cpu
