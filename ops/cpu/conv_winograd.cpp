// winograd: F(M x M, R x R) (Lavin and Gray 2016, "Fast algorithms for convolutional neural networks"): (M + R - 1)^2 products of matrices
// in place of M^2 R^2 for every tile of M x M outputs. `winograd` has M = 2, R = 3 or 5; `winograd4` M = 4, R = 3. Stride 1 (kernels:
// winograd.inl).
//   forward            M[f] = U[f] V[f] for the elements f of the transforms U of w [o][c] and V of x [c][tile];  y = A^T M A + bias
//   backward, data     the same with the kernel turned round and features and channels exchanged; or, where y has fewer tiles than x, the
//                      adjoint: patches B [U[f]^T (A dy A^T)[f]] B^T of dx, which overlap and are added
//   backward, weights  dU[f] = (A dy A^T)[f] V[f]^T over all tiles;  dw = G^T dU G
// Tiles are numbered row by row and image by image; a block is some rows of them, cut into panels. The sums are of fp32 and lose about
// one bit (patches of 4 x 4) or three (6 x 6) to the plain ones.
#include <utility>

#include "ops/cpu/conv.hpp"
#include "ops/cpu/conv_stage.hpp"

namespace troupe::cpu {

namespace {

using T = float;
using form = winograd_form<T>;

// From one part of a transform to the next: what is `size` and a line of the cache, so that the same element of all parts, written
// together, does not lie in one set of it.
i64 apart_for(const kernels<T>& k, i64 size) { return size + k.lanes; }

template <int Tile>
const form& form_of(const kernels<T>& k, const conv_geometry& g) {
  return Tile == 4 ? k.winograd4x3 : g.kernel_h == 3 ? k.winograd2x3 : k.winograd2x5;
}

// Rows [r, r + n) of the tiles of one image.
struct tile_rows_of {
  i64 image, row, count, first_tile;  // first_tile: in the block
};

class tiling {
 public:
  // Blocks of about `tiles_wanted` tiles, which may end within an image; 0: one block of all.
  tiling(const kernels<T>& k, const form& f, const conv_geometry& g, i64 tiles_wanted)
      : width_(k.panel_width),
        side_(f.tile),
        rows_(ceil_div(g.out_h(), side_)),
        across_(ceil_div(g.out_w(), side_)),
        all_(g.batch * rows_) {
    const i64 most = tiles_wanted == 0 ? all_ : std::clamp<i64>(tiles_wanted / across_, 1, all_);
    block_ = most;
    for (i64 rows = most; tiles_wanted > 0 && 2 * rows > most; --rows)  // the least of whose last panel is empty
      if (empty(rows) * block_ < empty(block_) * rows) block_ = rows;
  }
  i64 across() const { return across_; }
  i64 blocks() const { return ceil_div(all_, block_); }
  i64 tiles(i64 block) const { return (std::min(all_, (block + 1) * block_) - block * block_) * across_; }
  i64 panels(i64 block) const { return ceil_div(tiles(block), width_); }
  i64 most_rows() const { return block_; }
  i64 most_rows_of_an_image() const { return std::min(block_, rows_); }
  // The first row of a block, and the row behind its last one, are not the first ones of their images.
  bool begins_within(i64 block) const { return block * block_ % rows_ != 0; }
  bool ends_within(i64 block) const { return std::min(all_, (block + 1) * block_) % rows_ != 0; }
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
  // f(panel, column, tile, tiles) for the pieces of `count` tiles that start at `first`, cut where panels end.
  template <class F>
  void each_piece(i64 first, i64 count, F f) const {
    for (i64 t = 0; t < count;) {
      const i64 column = (first + t) % width_, length = std::min(count - t, width_ - column);
      f((first + t) / width_, column, t, length);
      t += length;
    }
  }
  // Where a panel's tiles lie in the first of the `planes` planes of each image. `to` has room for one piece a tile.
  int pieces(const conv_geometry& g, i64 planes, i64 block, i64 panel, tile_piece* to) const {
    return each_row(block, panel, [&](i64 row, i64 x, i64 column, i64 length) {
      const i64 y = side_ * (row % rows_);
      *to++ = {row / rows_ * planes * g.pixels() + y * g.out_w() + side_ * x, static_cast<int>(side_ * column),
               static_cast<int>(std::min(side_ * length, g.out_w() - side_ * x)), static_cast<int>(std::min(side_, g.out_h() - y))};
    });
  }
  // The same in a grid of the block's tiles whose rows have `more` places more than an image's, and images `more` rows.
  int grid_pieces(i64 more, i64 block, i64 panel, tile_piece* to) const {
    const i64 first = block * block_;
    return each_row(block, panel, [&](i64 row, i64 x, i64 column, i64 length) {
      const i64 images = row / rows_ - first / rows_;
      *to++ = {(row - first + images * more) * (across_ + more) + x, static_cast<int>(column), static_cast<int>(length), 1};
    });
  }

 private:
  // f(row, x, column, length) for what each row of tiles, counted over all images, has of a panel; how many have.
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

// The transform of planes [rows][panels of tiles]: rows in blocks (one block of all for products, small ones for dots), each
// [panel][row][tile].
struct transformed {
  even_blocks blocks;
  i64 apart;  // between the parts
  scratch<T> data;
  transformed(device& d, const kernels<T>& k, i64 parts, i64 rows, i64 at_once, i64 panels)
      : blocks(rows, at_once), apart(apart_for(k, rows * panels * k.panel_width)), data(d, parts * apart + k.slack) {}
};

// The planes that are transformed: of x (with padding) or of dy (whose patches are the tiles).
struct planes {
  const T* data;
  i64 all, height, width, pad_h, pad_w;  // `all` planes in each image
  i64 patch;                             // rows and columns of one tile's patch
};

// Pixels are split into every M-th row and column, so that vectors go on from one row of tiles to the next.
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
        gap_((t.most_rows() + 2) * t.across() + 2 * k.panel_width),
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
  // Neither are patches tiles, nor are there as many rows and columns of outputs as of pixels (or more).
  bool with_shifts() const { return !tiles_alone_ && !as_tiles_; }
  const T* plane(i64 image, i64 number) const { return p_.data + (image * p_.all + number) * p_.height * p_.width; }

  // As many tiles of pixels as of outputs: vectors go on from image to image too.
  void all_images(i64 block, i64 number, T* start, i64 panel_step, i64 apart) {
    const i64 across = tiles_.across(), tiles = tiles_.tiles(block);
    T* p = stage_.data + k_.lanes + across;
    tiles_.each_image(block, [&](const tile_rows_of& rows) {
      const i64 above = as_tiles_ && rows.first_tile == 0 && tiles_.begins_within(block) ? 1 : 0;
      const i64 below = as_tiles_ && rows.first_tile + rows.count * across == tiles && tiles_.ends_within(block) ? 1 : 0;
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
  // Every M-th row of an image with its borders of zeros, from `first` on, `count` of them; those below it are zero.
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
    zeros(0, above);  // after what is written too much
    zeros(above + inside, count - above - inside);
  }

  const kernels<T>& k_;
  const form& f_;
  const tiling& tiles_;
  planes p_;
  bool tiles_alone_, as_tiles_;
  i64 border_h_, border_w_;  // of zeros; as_tiles_: beyond the padding of as many outputs as pixels
  i64 kinds_, gap_;          // of split pixels of a row; between two of them
  scratch<T> bordered_;      // a row
  scratch<T> stage_;
};

// The products M[f] = U[f] V[f] of one block after the other. taps(k) tells where the taps of input k lie for all outputs side by side:
// {first, stride}.
class products {
 public:
  template <class Taps>
  products(device& d, const kernels<T>& k, const form& w, i64 in, i64 out, i64 most_panels, const Taps& taps)
      : k_(k),
        in_(in),
        out_(out),
        parts_(w.parts()),
        u_apart_(apart_for(k, in * out)),
        apart_(apart_for(k, out * most_panels * k.panel_width)),
        rows_(out, k.tile_rows),
        u_(d, parts_ * u_apart_),
        m_(d, parts_ * apart_) {
    for (i64 c = 0; c < in; ++c) {
      const auto [first, stride] = taps(c);
      for (i64 t = 0; t < rows_.blocks; ++t)  // [part][tile][k][row]
        w.weights(rows_.size(t), first + rows_.begin(t), stride, u_.data + rows_.begin(t) * in + c * rows_.size(t), u_apart_);
    }
  }
  // So many that the transforms of a block are about as large as U, or stay in the second cache.
  static i64 tiles_wanted(const kernels<T>& k, const form& w, i64 in, i64 out) {
    const i64 enough = std::max<i64>(i64{1} << 17, 2 * w.parts() * apart_for(k, in * out));
    return std::max<i64>(k.panel_width, enough / (w.parts() * (in + out)));
  }

  void run(i64 panels, const transformed& v) {
    for (i64 f = 0; f < parts_; ++f)
      for (i64 p = 0; p < panels; ++p)
        for (i64 t = 0; t < rows_.blocks; ++t)
          k_.tile(rows_.size(t), in_, u_.data + f * u_apart_ + rows_.begin(t) * in_,
                  v.data.data + f * v.apart + p * in_ * k_.panel_width, nullptr,
                  m_.data + f * apart_ + (p * out_ + rows_.begin(t)) * k_.panel_width, k_.panel_width);
  }
  const T* panel(i64 p, i64 output) const { return m_.data + (p * out_ + output) * k_.panel_width; }
  i64 apart() const { return apart_; }

 private:
  const kernels<T>& k_;
  i64 in_, out_, parts_, u_apart_, apart_;
  even_blocks rows_;
  scratch<T> u_, m_;
};

// y = x correlated with kernels.
template <class Taps>
void correlate(device& d, const kernels<T>& k, const form& w, const conv_geometry& g, i64 group, const T* x, const Taps& taps,
               const T* bias, T* y) {
  const i64 in = g.group_channels(), out = g.group_outputs();
  const tiling tiles(k, w, g, products::tiles_wanted(k, w, in, out));
  scratch<tile_piece> piece(d, k.panel_width);
  products m(d, k, w, in, out, tiles.panels(0), taps);
  transformed v(d, k, w.parts(), in, in, tiles.panels(0));
  transformer input(d, k, w, tiles, {x, g.channels, g.height, g.width, g.pad_h, g.pad_w, w.patch()});
  for (i64 block = 0; block < tiles.blocks(); ++block) {
    const i64 panels = tiles.panels(block);
    input.run(block, group * in, v);
    m.run(panels, v);
    for (i64 p = 0; p < panels; ++p) {
      const int pieces = tiles.pieces(g, g.outputs, block, p, piece.data);
      for (i64 o = 0; o < out; ++o)
        w.output(m.panel(p, o), m.apart(), bias == nullptr ? T(0) : bias[group * out + o], piece.data, pieces, g.out_w(),
                 y + (group * out + o) * g.pixels());
    }
  }
}

// Planes of dx from the patches of a block's tiles. Patches reach over `more` of their neighbours in each direction: a grid of tiles with as
// many empty ones between rows, and between images, lets vectors go on from row to row.
class patchwork {
 public:
  patchwork(device& d, const kernels<T>& k, const form& f, const conv_geometry& g, const tiling& t)
      : k_(k),
        f_(f),
        g_(g),
        tiles_(t),
        more_(f.reach()),
        pitch_(t.across() + more_),
        front_((pitch_ + 1) * more_),
        places_((t.most_rows() + ceil_div(t.most_rows(), t.most_rows_of_an_image()) * more_) * pitch_),
        plane_(apart_for(k, front_ + places_)),
        gap_(f.tile * (places_ + k.lanes)),
        patches_(d, f.parts() * plane_ + k.lanes),
        rows_(d, f.tile * gap_),
        pieces_(d, t.panels(0) * k.panel_width),
        counts_(d, t.panels(0)) {}

  // Before the planes of a block.
  void begin(i64 block) {
    block_ = block;
    if (tiles_.tiles(block) != filled_) zero(patches_.data, f_.parts() * plane_ + k_.lanes);
    filled_ = tiles_.tiles(block);
    for (i64 p = 0; p < tiles_.panels(block); ++p)
      counts_.data[p] = tiles_.grid_pieces(more_, block, p, pieces_.data + p * k_.panel_width);
  }

  // dx: the channel's plane of the first image; `number`: the channel's among the products.
  void plane(const products& m, i64 number, T* dx) {
    for (i64 p = 0; p < tiles_.panels(block_); ++p)
      f_.patches(m.panel(p, number), m.apart(), pieces_.data + p * k_.panel_width, counts_.data[p], patches_.data + front_, plane_);
    f_.overlap(places_, patches_.data + front_, plane_, pitch_, rows_.data, gap_);
    i64 first = 0;  // row of the grid
    tiles_.each_image(block_, [&](const tile_rows_of& part) {
      take(part, rows_.data + f_.tile * first * pitch_, dx + part.image * g_.channels * g_.height * g_.width);
      first += part.count + more_;
    });
  }

 private:
  // The pixels of one image that the block's patches reach; the first of them may have come from the block before too.
  void take(const tile_rows_of& part, const T* from, T* plane) const {
    const i64 again = part.row > 0 ? f_.patch() - f_.tile : 0;
    for (i64 r = 0; r < f_.tile * (part.count + more_); ++r) {
      const i64 y = f_.tile * part.row + r - g_.pad_h;
      if (y < 0 || y >= g_.height) continue;
      const T* row = from + r % f_.tile * gap_ + f_.tile * (r / f_.tile) * pitch_ + g_.pad_w;
      if (r < again)
        k_.axpy(g_.width, T(1), row, plane + y * g_.width);
      else
        copy(plane + y * g_.width, row, g_.width);
    }
  }

  const kernels<T>& k_;
  const form& f_;
  const conv_geometry& g_;
  const tiling& tiles_;
  i64 more_, pitch_, front_, places_, plane_, gap_, block_ = 0, filled_ = 0;
  scratch<T> patches_, rows_;
  scratch<tile_piece> pieces_;
  scratch<int> counts_;
};

template <int Tile>
void forward(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* w, const T* bias, T* y) {
  const i64 patch = g.patch(), out = g.group_outputs(), taps = g.kernel_h * g.kernel_w;
  scratch<T> turned(d, patch * out);
  for (i64 group = 0; group < g.groups; ++group) {
    k.transpose_matrix(out, patch, w + group * out * patch, patch, turned.data, out);
    correlate(
        d, k, form_of<Tile>(k, g), g, group, x, [&](i64 c) { return std::pair<const T*, i64>(turned.data + c * taps * out, out); },
        bias, y);
  }
}

i64 tiles_of(i64 side, i64 height, i64 width) { return ceil_div(height, side) * ceil_div(width, side); }

// About as many as are wanted, and few empty columns in their panels.
i64 images_of_a_block(i64 batch, i64 of_image, i64 wanted, i64 width) {
  const i64 most = std::clamp<i64>(wanted / of_image + 1, 1, batch);
  const auto panels = [&](i64 images) { return ceil_div(images * of_image, width); };
  i64 best = most;
  for (i64 n = most; 2 * n > most; --n)
    if (panels(n) * best < panels(best) * n) best = n;
  return best;
}

// As many whole images at a time as make a block, or blocks within one image.
void add_patches(device& d, const kernels<T>& k, const form& f, const conv_geometry& g, i64 group, const T* dy, const T* w, T* dx) {
  const i64 in = g.group_outputs(), out = g.group_channels(), count = g.kernel_h * g.kernel_w;
  const i64 wanted = products::tiles_wanted(k, f, in, out), of_image = tiles_of(f.tile, g.out_h(), g.out_w());
  const i64 images = images_of_a_block(g.batch, of_image, wanted, k.panel_width);
  conv_geometry some = g;
  const auto tiling_of = [&](i64 n) {
    some.batch = n;
    return tiling(k, f, some, of_image <= wanted ? 0 : wanted);
  };
  scratch<T> taps(d, g.patch());
  const i64 most_panels = tiling_of(images).panels(0);
  products m(d, k, f, in, out, most_panels, [&](i64 o) {
    k.transpose_matrix(out, count, w + (group * in + o) * g.patch(), count, taps.data, out);
    return std::pair<const T*, i64>(taps.data, out);
  });
  transformed e(d, k, f.parts(), in, in, most_panels);
  for (i64 first = 0; first < g.batch; first += images) {
    const tiling tiles = tiling_of(std::min(images, g.batch - first));
    transformer gradient(d, k, f, tiles, {dy + first * g.outputs * g.pixels(), g.outputs, g.out_h(), g.out_w(), 0, 0, f.tile});
    patchwork patches(d, k, f, some, tiles);
    for (i64 block = 0; block < tiles.blocks(); ++block) {
      gradient.run(block, group * in, e);
      m.run(tiles.panels(block), e);
      patches.begin(block);
      for (i64 c = 0; c < out; ++c) patches.plane(m, c, dx + (first * g.channels + group * out + c) * g.height * g.width);
    }
  }
}

template <int Tile>
void backward_data(device& d, const kernels<T>& k, const conv_geometry& g, const T* dy, const T* w, T* dx) {
  const form& f = form_of<Tile>(k, g);
  if (tiles_of(Tile, g.out_h(), g.out_w()) < tiles_of(Tile, g.height, g.width)) {
    for (i64 group = 0; group < g.groups; ++group) add_patches(d, k, f, g, group, dy, w, dx);
    return;
  }
  conv_geometry back = g;
  back.channels = g.outputs, back.outputs = g.channels;
  back.height = g.out_h(), back.width = g.out_w();
  back.pad_h = g.kernel_h - 1 - g.pad_h, back.pad_w = g.kernel_w - 1 - g.pad_w;
  const i64 channels = g.group_channels(), count = g.kernel_h * g.kernel_w;
  scratch<T> taps(d, g.patch());
  for (i64 group = 0; group < g.groups; ++group)
    correlate(
        d, k, f, back, group, dy,
        [&](i64 o) {  // from the last tap to the first
          k.transpose_matrix(channels, count, w + (group * g.group_outputs() + o) * g.patch(), count, taps.data, channels);
          return std::pair<const T*, i64>(taps.data + (count - 1) * channels, -channels);
        },
        nullptr, dx);
}

template <int Tile>
void backward_weights(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* dy, T* dw, bool add) {
  const form& w = form_of<Tile>(k, g);
  const i64 in = g.group_channels(), out = g.group_outputs(), width = k.panel_width, parts = w.parts();
  const tiling tiles(k, w, g, 8 * width);  // so few that both transforms stay in the second cache
  transformed v(d, k, parts, in, k.dot_columns, tiles.panels(0)), e(d, k, parts, out, k.dot_rows, tiles.panels(0));
  transformer input(d, k, w, tiles, {x, g.channels, g.height, g.width, g.pad_h, g.pad_w, w.patch()});
  transformer gradient(d, k, w, tiles, {dy, g.outputs, g.out_h(), g.out_w(), 0, 0, w.tile});
  const i64 apart = apart_for(k, in * out), count = g.kernel_h * g.kernel_w;
  scratch<T> u(d, parts * apart), taps(d, g.patch()), turned(d, g.patch());
  for (i64 group = 0; group < g.groups; ++group) {
    zero(u.data, parts * apart);
    for (i64 block = 0; block < tiles.blocks(); ++block) {
      const i64 panels = tiles.panels(block);
      input.run(block, group * in, v);
      gradient.run(block, group * out, e);
      for (i64 f = 0; f < parts; ++f)
        for (i64 c = 0; c < v.blocks.blocks; ++c)
          for (i64 o = 0; o < e.blocks.blocks; ++o)
            k.dot(e.blocks.size(o), v.blocks.size(c), panels, e.data.data + f * e.apart + e.blocks.begin(o) * panels * width,
                  e.blocks.size(o) * width, v.data.data + f * v.apart + v.blocks.begin(c) * panels * width,
                  v.blocks.size(c) * width, u.data + f * apart + e.blocks.begin(o) * in + v.blocks.begin(c), in);
    }
    for (i64 o = 0; o < out; ++o) {
      w.weights_gradient(in, u.data + o * in, apart, taps.data, in);
      T* to = dw + (group * out + o) * g.patch();
      k.transpose_matrix(count, in, taps.data, in, add ? turned.data : to, count);
      if (add) k.axpy(g.patch(), T(1), turned.data, to);
    }
  }
}

}  // namespace

conv_passes<float> conv_winograd() { return {forward<2>, backward_data<2>, backward_weights<2>}; }
conv_passes<float> conv_winograd4() { return {forward<4>, backward_data<4>, backward_weights<4>}; }

}  // namespace troupe::cpu
