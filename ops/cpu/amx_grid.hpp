// How a convolution becomes products over planes. The padded image is cut into "channels" (a
// channel of the image at one phase of the stride, or moved by one tap) whose pixels lie on one
// grid, so that an output pixel p of tap t reads grid pixel p + shift(t) of every channel: along an
// axis with stride s and dilation d, kernel element i is at i d = offset(v) + s tap(t). Three ways
// for an axis: `moved` (stride 1: one offset, a tap for each element), `phases` (dilation 1: an
// offset for each phase of the stride) and `spread` (an offset for each element, one tap; pixels
// are stored once for each element that reads them). Pure functions of the geometry.
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
  // The kernel element of an offset and a tap, -1 when there is none.
  i64 element(std::size_t offset, std::size_t tap) const {
    const i64 at = offsets[offset] + stride * taps[tap];
    return at % dilation == 0 && at / dilation < kernel ? at / dilation : -1;
  }
};

struct grid {
  axis_cut rows, columns;
  i64 channels = 0;           // of one group, with their offsets: c x rows.offsets x columns.offsets
  i64 height = 0, width = 0;  // of the grid of one image
  i64 taps() const { return static_cast<i64>(rows.taps.size() * columns.taps.size()); }
  i64 shift(i64 tap) const {  // of rows.taps x columns.taps
    const auto n = static_cast<i64>(columns.taps.size());
    return rows.taps[static_cast<std::size_t>(tap / n)] * width + columns.taps[static_cast<std::size_t>(tap % n)];
  }
  i64 max_shift() const { return rows.taps.back() * width + columns.taps.back(); }
  i64 pixels() const { return height * width; }
};

// `small`: channels that store pixels more than once are allowed where that makes fewer steps.
grid grid_of(const conv_geometry& g, bool small);

}  // namespace troupe::cpu
