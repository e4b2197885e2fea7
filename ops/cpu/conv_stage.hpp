// Shared by the convolution algorithms: scratch memory, the stage, and panels of outputs.
//
// The stage holds a block of images with zero padding around each plane. A row of width W is stored
// as stride_w phases (x % stride_w) of ceil(W / stride_w) elements, so that the pixels that one tap
// of the kernel reads along an output row are contiguous for every stride. The input element of
// output pixel (oy, ox) of image b and patch element (c, i, j) is at
//   offset(b, oy, ox) + k_offset(c, i, j)
// of the stage. Gathering, scattering and broadcasting use this separation.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>
#include <optional>

#include "ops/cpu/kernels.hpp"
#include "ops/device.hpp"

namespace troupe::cpu {

constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// Scratch memory from the pool, returned by the destructor.
template <class T>
struct scratch {
  std::shared_ptr<storage> memory;
  T* data;
  scratch(device& d, i64 count)
      : memory(d.allocate(static_cast<std::size_t>(count) * sizeof(T))), data(reinterpret_cast<T*>(memory->data)) {}
};

template <class T>
void copy(T* to, const T* from, i64 count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
}
template <class T>
void zero(T* to, i64 count) {
  std::memset(to, 0, static_cast<std::size_t>(count) * sizeof(T));
}

// Splits `count` rows into blocks of at most `most` rows, as evenly as possible.
struct even_blocks {
  i64 count, blocks;
  even_blocks(i64 n, i64 most) : count(n), blocks(ceil_div(n, most)) {}
  i64 begin(i64 b) const { return b * count / blocks; }
  int size(i64 b) const { return static_cast<int>(begin(b + 1) - begin(b)); }
};

template <class T>
class lowering {
 public:
  lowering(device& d, const kernels<T>& k, const conv_geometry& g, i64 pixels_wanted)
      : k_(k), g_(g), out_w_(g.out_w()), pixels_(g.pixels()), phases_(d, g.stride_w) {
    padded_h_ = g.height + 2 * g.pad_h;
    phase_ = ceil_div(g.width + 2 * g.pad_w, g.stride_w);
    row_ = phase_ * g.stride_w;
    image_ = g.group_channels() * padded_h_ * row_;
    images_ = std::clamp<i64>(ceil_div(pixels_wanted, pixels_), 1, g.batch);
    assert(image_ < (i64{1} << 31));  // offsets within an image have 32 bits
    find_phases();
    stage_.emplace(d, images_ * image_ + k.slack);
    clear();
  }

  T* stage() { return stage_->data; }
  void clear() { zero(stage_->data, images_ * image_ + k_.slack); }
  i64 images_per_block() const { return images_; }
  i64 blocks() const { return ceil_div(g_.batch, images_); }
  i64 first_image(i64 block) const { return block * images_; }
  i64 images(i64 block) const { return std::min(images_, g_.batch - first_image(block)); }
  i64 panels(i64 block) const { return ceil_div(images(block) * pixels_, k_.panel_width); }
  i64 max_panels() const { return panels(0); }

  // Offsets of the patch elements (c, i, j) in the stage. tap_major: channel fastest.
  void offsets(std::int32_t* to, bool tap_major) const {
    for (i64 c = 0; c < g_.group_channels(); ++c)
      for (i64 i = 0; i < g_.kernel_h; ++i)
        for (i64 j = 0; j < g_.kernel_w; ++j) {
          const i64 tap = i * g_.kernel_w + j;
          const i64 at = tap_major ? tap * g_.group_channels() + c : c * g_.kernel_h * g_.kernel_w + tap;
          const i64 x = j * g_.dilation_w;
          to[at] =
              static_cast<std::int32_t>((c * padded_h_ + i * g_.dilation_h) * row_ + x % g_.stride_w * phase_ + x / g_.stride_w);
        }
  }

  // Offset of the first pixel of an output row.
  i64 row_offset(i64 image, i64 oy) const { return image * image_ + oy * g_.stride_h * row_; }
  // Distance between rows of output pixels. Taps j and j + stride_w of a kernel row are 1 apart.
  i64 row_step() const { return g_.stride_h * row_; }
  i64 image_step() const { return image_; }

  // The runs of a panel: parts of output rows.
  run_list runs(i64 block, i64 panel) const {
    run_list list;
    each_piece(block, panel, out_w_, [&](i64 image, i64 pixel, i64 column, i64 length) {
      const i64 oy = pixel / out_w_, ox = pixel % out_w_;
      const int r = list.count++;
      list.column[r] = static_cast<int>(column);
      list.length[r] = static_cast<int>(length);
      list.offset[r] = image * image_ + oy * g_.stride_h * row_ + ox;
    });
    return list;
  }

  // Calls f(image in block, pixel, column, length) for the parts of a panel. No part crosses a
  // multiple of `unit` pixels.
  template <class F>
  void each_piece(i64 block, i64 panel, i64 unit, F f) const {
    const i64 begin = panel * k_.panel_width;
    if (unit == pixels_ && pixels_ % k_.panel_width == 0) return f(begin / pixels_, begin % pixels_, 0, k_.panel_width);
    const i64 end = std::min<i64>(begin + k_.panel_width, images(block) * pixels_);
    i64 image = begin / pixels_, pixel = begin % pixels_;
    for (i64 at = begin; at < end;) {
      const i64 length = std::min(unit - pixel % unit, end - at);
      f(image, pixel, at - begin, length);
      at += length;
      pixel += length;
      if (pixel == pixels_) pixel = 0, ++image;
    }
  }

  // Copies images of the block between x and the stage. The padding stays zero.
  void load(i64 block, i64 group, const T* x) {
    if (plain() && g_.groups == 1) return copy(stage_->data, x + first_image(block) * image_, images(block) * image_);
    if (g_.stride_w == 1) {
      return each_plane(block, group,
                        [&](i64 at, T* rows) { k_.copy_rows(g_.height, g_.width, x + at, g_.width, rows + g_.pad_w, row_); });
    }
    each_row(block, group, [&](i64 at, T* row) { spread(x + at, row); });
  }
  void unload(i64 block, i64 group, T* dx) const {
    if (plain() && g_.groups == 1) return copy(dx + first_image(block) * image_, stage_->data, images(block) * image_);
    if (g_.stride_w == 1) {
      return each_plane(block, group,
                        [&](i64 at, T* rows) { k_.copy_rows(g_.height, g_.width, rows + g_.pad_w, row_, dx + at, g_.width); });
    }
    each_row(block, group, [&](i64 at, T* row) { collect(row, dx + at); });
  }

 private:
  bool plain() const { return g_.pad_h == 0 && g_.pad_w == 0 && g_.stride_w == 1; }  // the stage is a copy of the images
  // Calls f(index of the image plane's first element, address of its first row in the stage).
  template <class F>
  void each_plane(i64 block, i64 group, F f) const {
    for (i64 b = 0; b < images(block); ++b)
      for (i64 c = 0; c < g_.group_channels(); ++c) {
        const i64 plane = (first_image(block) + b) * g_.channels + group * g_.group_channels() + c;
        f(plane * g_.height * g_.width, stage_->data + b * image_ + (c * padded_h_ + g_.pad_h) * row_);
      }
  }
  template <class F>
  void each_row(i64 block, i64 group, F f) const {
    each_plane(block, group, [&](i64 at, T* rows) {
      for (i64 y = 0; y < g_.height; ++y) f(at + y * g_.width, rows + y * row_);
    });
  }
  // One phase of a row: `count` elements of the image from `first` on, stride apart, at `place` in
  // the stage's row.
  struct phase_of_row {
    i64 first, place, count;
  };
  void find_phases() {
    for (i64 s = g_.stride_w, p = 0; p < s; ++p) {
      const i64 first = ((p - g_.pad_w) % s + s) % s;
      phases_.data[p] = {first, p * phase_ + (first + g_.pad_w) / s, first < g_.width ? ceil_div(g_.width - first, s) : 0};
    }
  }
  void spread(const T* from, T* row) const {
    for (const phase_of_row *p = phases_.data, *end = p + g_.stride_w; p != end; ++p)
      k_.take_strided(p->count, g_.stride_w, from + p->first, row + p->place);
  }
  void collect(const T* row, T* to) const {
    for (const phase_of_row *p = phases_.data, *end = p + g_.stride_w; p != end; ++p)
      k_.put_strided(p->count, g_.stride_w, row + p->place, to + p->first);
  }

  const kernels<T>& k_;
  const conv_geometry& g_;
  i64 out_w_, pixels_, padded_h_, phase_, row_, image_, images_;
  scratch<phase_of_row> phases_;
  std::optional<scratch<T>> stage_;
};

// Panels of y or dy: [rows][panel_width], one row per output of a group. Columns after the last
// pixel are zero.
template <class T>
struct output_panels {
  const lowering<T>& low;
  const kernels<T>& k;
  const conv_geometry& g;
  i64 group;

  i64 start(i64 block, i64 image, i64 pixel) const {
    return ((low.first_image(block) + image) * g.outputs + group * g.group_outputs()) * g.pixels() + pixel;
  }
  // Copies rows [first, first + rows) of a panel.
  void pack(i64 block, i64 panel, const T* dy, i64 first, i64 rows, T* to) const {
    i64 filled = 0;
    low.each_piece(block, panel, g.pixels(), [&](i64 image, i64 pixel, i64 column, i64 length) {
      const T* from = dy + start(block, image, pixel) + first * g.pixels();
      filled = column + length;
      if (length == k.panel_width) return k.copy_panel(rows, from, g.pixels(), to);
      for (i64 o = 0; o < rows; ++o) copy(to + o * k.panel_width + column, from + o * g.pixels(), length);
    });
    if (filled == k.panel_width) return;
    for (i64 o = 0; o < rows; ++o) zero(to + o * k.panel_width + filled, k.panel_width - filled);
  }
};

}  // namespace troupe::cpu
