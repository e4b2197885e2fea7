// Copies a box out of a tensor or into it. For crop and pad.
#pragma once

#include <functional>

#include "ops/layer_support.hpp"

namespace troupe {

// `box` has the rank of `whole` and starts at `at`; axis 0 is copied completely. Copies runs that
// are as long as possible. out = true: from `whole` to the box; false: from the box to `whole`,
// whose other elements are unchanged.
inline void copy_region(device& d, const shape& whole, const shape& box, const shape& at, bool out, const tensor& from,
                        tensor& to) {
  int last = whole.rank() - 1;  // the last cropped axis; the axes after it are contiguous in both
  while (last > 1 && box[last] == whole[last]) --last;
  const std::function<void(int, std::int64_t, std::int64_t)> copy = [&](int axis, std::int64_t in_whole, std::int64_t in_box) {
    if (axis + 1 < last) {
      for (std::int64_t i = 0; i < box[axis]; ++i)
        copy(axis + 1, in_whole + (at[axis] + i) * whole.count_from(axis + 1), in_box + i * box.count_from(axis + 1));
      return;
    }
    // Rows along `axis`, each a run over the axes from `last` on.
    in_whole += at[axis] * whole.count_from(axis + 1) + at[last] * whole.count_from(last + 1);
    device::block b{.rows = box[axis],
                    .length = box.count_from(last),
                    .from_offset = in_whole,
                    .from_stride = whole.count_from(axis + 1),
                    .to_offset = in_box,
                    .to_stride = box.count_from(axis + 1)};
    if (!out) {
      std::swap(b.from_offset, b.to_offset);
      std::swap(b.from_stride, b.to_stride);
    }
    d.copy_block(b, from, to);
  };
  copy(0, 0, 0);
}

}  // namespace troupe
