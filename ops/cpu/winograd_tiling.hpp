// winograd: assignment of the images' tiles to blocks and panels (conv_winograd.cpp).
#pragma once

#include <algorithm>

#include "ops/cpu/conv_stage.hpp"

namespace troupe::cpu::winograd {

using T = float;
using form = winograd_form<T>;

// Distance between the parts of a transform: `size` plus a cache line, so that the same element of
// all parts, which is written at the same time, is not in the same cache set.
inline i64 apart_for(const kernels<T>& k, i64 size) { return size + k.lanes; }

// Rows [row, row + count) of the tiles of one image.
struct tile_rows_of {
  i64 image, row, count, first_tile;  // first_tile: in the block
};

class tiling {
 public:
  // Blocks of about `tiles_wanted` tiles, which may end inside an image. 0: a single block.
  tiling(const kernels<T>& k, const form& f, const conv_geometry& g, i64 tiles_wanted)
      : width_(k.panel_width),
        side_(f.tile),
        rows_(ceil_div(g.out_h(), side_)),
        across_(ceil_div(g.out_w(), side_)),
        all_(g.batch * rows_) {
    const i64 most = tiles_wanted == 0 ? all_ : std::clamp<i64>(tiles_wanted / across_, 1, all_);
    block_ = most;
    // Choose the size that leaves the smallest part of the last panel empty.
    for (i64 rows = most; tiles_wanted > 0 && 2 * rows > most; --rows)
      if (empty(rows) * block_ < empty(block_) * rows) block_ = rows;
  }
  i64 across() const { return across_; }
  i64 blocks() const { return ceil_div(all_, block_); }
  i64 tiles(i64 block) const { return (std::min(all_, (block + 1) * block_) - block * block_) * across_; }
  i64 panels(i64 block) const { return ceil_div(tiles(block), width_); }
  i64 max_rows() const { return block_; }
  i64 max_rows_of_an_image() const { return std::min(block_, rows_); }
  // Return true if the block starts (ends) inside an image: its first row, or the row after its
  // last one, is not the first row of an image.
  bool begins_inside(i64 block) const { return block * block_ % rows_ != 0; }
  bool ends_inside(i64 block) const { return std::min(all_, (block + 1) * block_) % rows_ != 0; }
  tile_place place(i64 block, i64 tile) const {
    return {tile % across_, (block * block_ + tile / across_) % rows_, across_, rows_};
  }

  template <class F>
  void each_image(i64 block, F f) const {
    const i64 end = std::min(all_, (block + 1) * block_);
    for (i64 at = block * block_; at < end;) {
      const i64 count = std::min(rows_ - at % rows_, end - at);
      f(tile_rows_of{at / rows_, at % rows_, count, (at - block * block_) * across_});
      at += count;
    }
  }
  // Calls f(panel, column, tile, tiles) for the pieces of `count` tiles from `first` on, split at
  // the ends of panels.
  template <class F>
  void each_piece(i64 first, i64 count, F f) const {
    for (i64 t = 0; t < count;) {
      const i64 column = (first + t) % width_, length = std::min(count - t, width_ - column);
      f((first + t) / width_, column, t, length);
      t += length;
    }
  }
  // Locations of a panel's tiles in the first of the `planes` planes of each image. `to` has room
  // for one piece per tile.
  int pieces(const conv_geometry& g, i64 planes, i64 block, i64 panel, tile_piece* to) const {
    return each_row(block, panel, [&](i64 row, i64 x, i64 column, i64 length) {
      const i64 y = side_ * (row % rows_);
      *to++ = {row / rows_ * planes * g.pixels() + y * g.out_w() + side_ * x, static_cast<int>(side_ * column),
               static_cast<int>(std::min(side_ * length, g.out_w() - side_ * x)), static_cast<int>(std::min(side_, g.out_h() - y))};
    });
  }
  // The same in a grid of the block's tiles that has `more` extra places per row and `more` extra
  // rows per image.
  int grid_pieces(i64 more, i64 block, i64 panel, tile_piece* to) const {
    const i64 first = block * block_;
    return each_row(block, panel, [&](i64 row, i64 x, i64 column, i64 length) {
      const i64 images = row / rows_ - first / rows_;
      *to++ = {(row - first + images * more) * (across_ + more) + x, static_cast<int>(column), static_cast<int>(length), 1};
    });
  }

 private:
  // Calls f(row, x, column, length) for the part of a panel in each row of tiles, rows counted over
  // all images. Returns the number of calls.
  template <class F>
  int each_row(i64 block, i64 panel, F f) const {
    const i64 end = std::min((panel + 1) * width_, tiles(block));
    int count = 0;
    for (i64 t = panel * width_; t < end; ++count) {
      const i64 x = t % across_, length = std::min(across_ - x, end - t);
      f(block * block_ + t / across_, x, t - panel * width_, length);
      t += length;
    }
    return count;
  }
  i64 empty(i64 rows) const { return ceil_div(rows * across_, width_) * width_ - rows * across_; }

  i64 width_, side_, rows_, across_, all_, block_;
};

}  // namespace troupe::cpu::winograd
