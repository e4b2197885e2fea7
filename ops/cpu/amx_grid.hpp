// Maps a convolution to products over planes. The padded image is split into "channels" (a channel
// of the image at one phase of the stride, or shifted by one tap) whose pixels are on one grid.
// Output pixel p of tap t then reads grid pixel p + shift(t) of every channel: along an axis with
// stride s and dilation d, kernel element i is at i d = offset(v) + s tap(t). There are three ways
// to split an axis:
//   moved   stride 1: one offset, a tap per kernel element
//   phases  dilation 1: an offset per phase of the stride
//   spread  an offset per kernel element, one tap; pixels are stored once per element that reads
//           them
// Pure functions of the geometry.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/geometry.hpp"

namespace troupe::cpu {

using i64 = std::int64_t;

struct axis_cut {
  std::vector<i64> offsets;  // of the channels, in pixels of the padded image
  std::vector<i64> taps;     // in pixels of the grid
  i64 stride = 1, dilation = 1, kernel = 1;
  // The kernel element of an offset and a tap, -1 if there is none.
  i64 element(std::size_t offset, std::size_t tap) const {
    const i64 at = offsets[offset] + stride * taps[tap];
    return at % dilation == 0 && at / dilation < kernel ? at / dilation : -1;
  }
};

struct grid {
  axis_cut rows, columns;
  i64 channels = 0;           // of one group: its channels x rows.offsets x columns.offsets
  i64 height = 0, width = 0;  // of one image's grid
  i64 taps() const { return static_cast<i64>(rows.taps.size() * columns.taps.size()); }
  i64 shift(i64 tap) const {  // tap: index in rows.taps x columns.taps
    const auto n = static_cast<i64>(columns.taps.size());
    return rows.taps[static_cast<std::size_t>(tap / n)] * width + columns.taps[static_cast<std::size_t>(tap % n)];
  }
  i64 max_shift() const { return rows.taps.back() * width + columns.taps.back(); }
  i64 pixels() const { return height * width; }
};

// `small`: allows channels that store pixels more than once, if that needs fewer steps.
grid grid_of(const conv_geometry& g, bool small);

}  // namespace troupe::cpu
