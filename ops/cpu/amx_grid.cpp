#include "ops/cpu/amx_grid.hpp"

#include <algorithm>

#include "ops/cpu/amx.hpp"

namespace troupe::cpu {

namespace {

enum class way : std::uint8_t { moved_or_phases, spread };

axis_cut cut_axis(way w, i64 kernel, i64 stride, i64 dilation) {
  axis_cut a;
  a.kernel = kernel, a.stride = stride, a.dilation = dilation;
  if (w == way::spread) {
    for (i64 i = 0; i < kernel; ++i) a.offsets.push_back(i * dilation);
    a.taps = {0};
  } else if (stride == 1) {
    a.offsets = {0};
    for (i64 i = 0; i < kernel; ++i) a.taps.push_back(i * dilation);
  } else {
    for (i64 i = 0; i < std::min(stride, kernel); ++i) a.offsets.push_back(i);
    for (i64 i = 0; i * stride < kernel; ++i) a.taps.push_back(i);
  }
  return a;
}

// Rough cost in units of 16 cycles per 16 pixels: one per step and tile of 16 outputs, plus the
// cost of storing a channel's pixel twice.
double cost(const conv_geometry& g, const grid& s) {
  const i64 steps = s.taps() * ((s.channels + tile_sum - 1) / tile_sum), tiles = (g.group_outputs() + 15) / 16;
  return static_cast<double>(steps * tiles) + 0.5 * static_cast<double>(s.channels);
}

grid with(const conv_geometry& g, way rows, way columns) {
  grid s;
  s.rows = cut_axis(rows, g.kernel_h, g.stride_h, g.dilation_h);
  s.columns = cut_axis(columns, g.kernel_w, g.stride_w, g.dilation_w);
  s.channels = g.group_channels() * static_cast<i64>(s.rows.offsets.size() * s.columns.offsets.size());
  s.height = g.out_h() + s.rows.taps.back();
  s.width = g.out_w() + s.columns.taps.back();
  return s;
}

}  // namespace

grid grid_of(const conv_geometry& g, bool small) {
  const auto needs = [](i64 stride, i64 dilation) { return stride > 1 && dilation > 1; };
  grid best;
  double least = 0.0;
  for (const way rows : {way::moved_or_phases, way::spread})
    for (const way columns : {way::moved_or_phases, way::spread}) {
      if ((rows != way::spread && needs(g.stride_h, g.dilation_h)) || (columns != way::spread && needs(g.stride_w, g.dilation_w)))
        continue;
      if (!small && ((rows == way::spread && !needs(g.stride_h, g.dilation_h)) ||
                     (columns == way::spread && !needs(g.stride_w, g.dilation_w))))
        continue;
      grid s = with(g, rows, columns);
      const double c = cost(g, s);
      if (best.channels == 0 || c < least) best = std::move(s), least = c;
    }
  return best;
}

}  // namespace troupe::cpu
