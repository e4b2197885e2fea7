// winograd: transforms of the patches of planes of pixels (conv_winograd.cpp).
#pragma once

#include "ops/cpu/winograd_tiling.hpp"

namespace troupe::cpu::winograd {

// The transform of planes, [rows][panels of tiles]: rows in blocks (one block for products, small
// ones for dots), each [panel][row][tile].
struct transformed {
  even_blocks blocks;
  i64 apart;  // distance between the parts
  scratch<T> data;
  transformed(device& d, const kernels<T>& k, i64 parts, i64 rows, i64 at_once, i64 panels)
      : blocks(rows, at_once), apart(apart_for(k, rows * panels * k.panel_width)), data(d, parts * apart + k.slack) {}
};

// The planes to transform: those of x (with padding) or of dy (whose patches are the tiles).
struct planes {
  const T* data;
  i64 all, height, width, pad_h, pad_w;  // `all`: planes per image
  i64 patch;                             // rows and columns of one tile's patch
};

// Pixels are split into every M-th row and column, so that vectors can cross rows of tiles.
class transformer {
 public:
  transformer(device& d, const kernels<T>& k, const form& f, const tiling& t, const planes& p)
      : k_(k),
        f_(f),
        tiles_(t),
        p_(p),
        tiles_alone_(p.patch == f.tile),
        as_tiles_(!tiles_alone_ && 2 * p.pad_h + 1 >= f.kernel && 2 * p.pad_w + 1 >= f.kernel),
        border_h_(p.pad_h - (as_tiles_ ? f.kernel / 2 : 0)),
        border_w_(p.pad_w - (as_tiles_ ? f.kernel / 2 : 0)),
        kinds_(with_shifts() ? f.tile * (f.reach() + 1) : f.tile),
        gap_((t.max_rows() + 2) * t.across() + 2 * k.panel_width),
        bordered_(d, p.width + 2 * p.pad_w),
        stage_(d, f.tile * kinds_ * gap_) {
    zero(bordered_.data, p.width + 2 * p.pad_w);
  }

  void run(i64 block, i64 first_plane, transformed& to) {
    const i64 panels = tiles_.panels(block), filled = tiles_.tiles(block) % k_.panel_width;
    for (i64 b = 0; b < to.blocks.blocks; ++b)
      for (i64 r = 0; r < to.blocks.size(b); ++r) {
        T* start = to.data.data + (to.blocks.begin(b) * panels + r) * k_.panel_width;
        const i64 panel_step = to.blocks.size(b) * k_.panel_width;
        const i64 number = first_plane + to.blocks.begin(b) + r;
        with_shifts() ? by_image(block, number, start, panel_step, to.apart)
                      : all_images(block, number, start, panel_step, to.apart);
        for (i64 f = 0; filled > 0 && f < f_.parts(); ++f)
          zero(start + f * to.apart + (panels - 1) * panel_step + filled, k_.panel_width - filled);
      }
  }

 private:
  // Returns true if patches are larger than tiles, and there are fewer rows or columns of outputs
  // than of pixels.
  bool with_shifts() const { return !tiles_alone_ && !as_tiles_; }
  const T* plane(i64 image, i64 number) const { return p_.data + (image * p_.all + number) * p_.height * p_.width; }

  // For as many tiles of pixels as of outputs: vectors can cross images too.
  void all_images(i64 block, i64 number, T* start, i64 panel_step, i64 apart) {
    const i64 across = tiles_.across(), tiles = tiles_.tiles(block);
    T* p = stage_.data + k_.lanes + across;
    tiles_.each_image(block, [&](const tile_rows_of& rows) {
      const i64 above = as_tiles_ && rows.first_tile == 0 && tiles_.begins_inside(block) ? 1 : 0;
      const i64 below = as_tiles_ && rows.first_tile + rows.count * across == tiles && tiles_.ends_inside(block) ? 1 : 0;
      for (i64 i = 0; i < f_.tile; ++i)
        split(plane(rows.image, number), f_.tile * (rows.row - above) + i, above + rows.count + below,
              p + i * kinds_ * gap_ + rows.first_tile - above * across);
    });
    tiles_.each_piece(0, tiles, [&](i64 panel, i64, i64 tile, i64 length) {
      T* to = start + panel * panel_step;
      as_tiles_ ? f_.split_input(length, tiles_.place(block, tile), p + tile, gap_, to, apart)
                : f_.gradient(length, p + tile, gap_, to, apart);
    });
  }
  void by_image(i64 block, i64 number, T* start, i64 panel_step, i64 apart) {
    const i64 across = tiles_.across();
    tiles_.each_image(block, [&](const tile_rows_of& rows) {
      for (i64 i = 0; i < f_.tile; ++i)
        split(plane(rows.image, number), f_.tile * rows.row + i, rows.count + f_.reach(), stage_.data + i * kinds_ * gap_);
      tiles_.each_piece(rows.first_tile, rows.count * across, [&](i64 panel, i64 column, i64 tile, i64 length) {
        f_.input(length, stage_.data + tile, across, gap_, start + panel * panel_step + column, apart);
      });
    });
  }
  // Splits every M-th row of an image with its zero borders, `count` rows from `first` on. Rows
  // below the image are zero.
  void split(const T* from, i64 first, i64 count, T* to) {
    const i64 across = tiles_.across(), step = f_.tile, width = p_.width + 2 * border_w_;
    const auto zeros = [&](i64 row, i64 rows) {
      for (i64 j = 0; rows > 0 && j < kinds_; ++j) zero(to + j * gap_ + row * across, rows * across);
    };
    const i64 above = std::clamp<i64>(ceil_div(border_h_ - first, step), 0, count);
    const i64 inside = std::clamp<i64>(ceil_div(border_h_ + p_.height - first, step) - above, 0, count - above);
    const T* rows = from + (first + above * step - border_h_) * p_.width;
    const auto split_rows = with_shifts() ? f_.split_with_shifts : f_.split;
    if (border_w_ == 0) {
      split_rows(inside, step * p_.width, width, across, rows, to + above * across, gap_);
    } else {
      for (i64 r = 0; r < inside; ++r) {
        copy(bordered_.data + border_w_, rows + r * step * p_.width, p_.width);
        split_rows(1, 0, width, across, bordered_.data, to + (above + r) * across, gap_);
      }
    }
    zeros(0, above);  // last, since earlier rows write excess elements here
    zeros(above + inside, count - above - inside);
  }

  const kernels<T>& k_;
  const form& f_;
  const tiling& tiles_;
  planes p_;
  bool tiles_alone_, as_tiles_;
  i64 border_h_, border_w_;  // zero borders; with as_tiles_, beyond the padding that gives as many outputs as pixels
  i64 kinds_, gap_;          // number of sets of split pixels per row; distance between sets
  scratch<T> bordered_;      // one row
  scratch<T> stage_;
};

}  // namespace troupe::cpu::winograd
