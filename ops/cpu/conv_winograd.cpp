// winograd: F(M x M, R x R) (Lavin and Gray 2016, "Fast algorithms for convolutional neural networks"): (M + R - 1)^2 products of matrices
// in place of M^2 R^2 for every tile of M x M outputs. `winograd` has M = 2, R = 3 or 5; `winograd4` M = 4, R = 3. Stride 1 (kernels:
// winograd.inl).
//   forward            M[f] = U[f] V[f] for the elements f of the transforms U of w [o][c] and V of x [c][tile];  y = A^T M A + bias
//   backward, data     the same with the kernel turned round and features and channels exchanged
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
  tiling(const kernels<T>& k, const form& f, const conv_geometry& g, i64 tiles_wanted)
      : width_(k.panel_width),
        side_(f.tile),
        rows_(ceil_div(g.out_h(), side_)),
        across_(ceil_div(g.out_w(), side_)),
        all_(g.batch * rows_) {
    const i64 most = std::clamp<i64>(tiles_wanted / across_, 1, all_);
    block_ = most;
    for (i64 rows = most; 2 * rows > most; --rows)  // the least of whose last panel is empty
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
    const i64 end = std::min((panel + 1) * width_, tiles(block));
    int count = 0;
    for (i64 t = panel * width_; t < end; ++count) {
      const i64 row = block * block_ + t / across_, x = t % across_, length = std::min(across_ - x, end - t);
      const i64 y = side_ * (row % rows_);
      to[count] = {row / rows_ * planes * g.pixels() + y * g.out_w() + side_ * x, static_cast<int>(side_ * (t - panel * width_)),
                   static_cast<int>(std::min(side_ * length, g.out_w() - side_ * x)),
                   static_cast<int>(std::min(side_, g.out_h() - y))};
      t += length;
    }
    return count;
  }

 private:
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

class transformer {
 public:
  transformer(device& d, const kernels<T>& k, const form& f, const tiling& t, const planes& p)
      : k_(k),
        f_(f),
        tiles_(t),
        p_(p),
        split_(p.patch == f.tile || (2 * p.pad_h + 1 >= f.kernel && 2 * p.pad_w + 1 >= f.kernel)),
        border_h_(p.patch == f.tile ? 0 : p.pad_h - f.kernel / 2),
        border_w_(p.patch == f.tile ? 0 : p.pad_w - f.kernel / 2),
        stride_(f.tile * (t.across() - 1) + p.patch),
        gap_((t.most_rows() + 2) * t.across() + 2 * k.panel_width),
        bordered_(d, p.width + 2 * p.pad_w),
        stage_(d, split_ ? f.tile * f.tile * gap_ : staged_rows() * stride_ + 4 * k.panel_width) {
    zero(bordered_.data, p.width + 2 * p.pad_w);
    if (!split_) zero(stage_.data, staged_rows() * stride_ + 4 * k.panel_width);
  }

  void run(i64 block, i64 first_plane, transformed& to) {
    const i64 panels = tiles_.panels(block), filled = tiles_.tiles(block) % k_.panel_width;
    for (i64 b = 0; b < to.blocks.blocks; ++b)
      for (i64 r = 0; r < to.blocks.size(b); ++r) {
        T* start = to.data.data + (to.blocks.begin(b) * panels + r) * k_.panel_width;
        const i64 panel_step = to.blocks.size(b) * k_.panel_width;
        const i64 number = first_plane + to.blocks.begin(b) + r;
        split_ ? transform_split(block, number, start, panel_step, to.apart)
               : transform(block, number, start, panel_step, to.apart);
        for (i64 f = 0; filled > 0 && f < f_.parts(); ++f)
          zero(start + f * to.apart + (panels - 1) * panel_step + filled, k_.panel_width - filled);
      }
  }

 private:
  i64 staged_rows() const { return f_.tile * (tiles_.most_rows_of_an_image() - 1) + p_.patch; }
  const T* plane(i64 image, i64 number) const { return p_.data + (image * p_.all + number) * p_.height * p_.width; }

  // The usual case: pixels are split into every M-th row and column, so that vectors go on from one row of tiles to the next.
  void transform_split(i64 block, i64 number, T* start, i64 panel_step, i64 apart) {
    const i64 across = tiles_.across(), tiles = tiles_.tiles(block);
    T* p = stage_.data + k_.lanes + across;
    const bool neighbours = p_.patch > f_.tile;
    tiles_.each_image(block, [&](const tile_rows_of& rows) {
      const i64 above = neighbours && rows.first_tile == 0 && tiles_.begins_within(block) ? 1 : 0;
      const i64 below = neighbours && rows.first_tile + rows.count * across == tiles && tiles_.ends_within(block) ? 1 : 0;
      for (i64 i = 0; i < f_.tile; ++i)
        split(plane(rows.image, number), f_.tile * (rows.row - above) + i, above + rows.count + below,
              p + i * f_.tile * gap_ + rows.first_tile - above * across);
    });
    tiles_.each_piece(0, tiles, [&](i64 panel, i64, i64 tile, i64 length) {
      T* to = start + panel * panel_step;
      neighbours ? f_.split_input(length, tiles_.place(block, tile), p + tile, gap_, to, apart)
                 : f_.gradient(length, p + tile, gap_, to, apart);
    });
  }
  // Every M-th row of an image with its borders of zeros, from `first` on, `count` of them; those below it are zero.
  void split(const T* from, i64 first, i64 count, T* to) {
    const i64 across = tiles_.across(), step = f_.tile, width = p_.width + 2 * border_w_;
    const auto zeros = [&](i64 row, i64 rows) {
      for (i64 j = 0; rows > 0 && j < step; ++j) zero(to + j * gap_ + row * across, rows * across);
    };
    const i64 above = std::clamp<i64>(ceil_div(border_h_ - first, step), 0, count);
    const i64 inside = std::clamp<i64>(ceil_div(border_h_ + p_.height - first, step) - above, 0, count - above);
    const T* rows = from + (first + above * step - border_h_) * p_.width;
    if (border_w_ == 0) {
      f_.split(inside, step * p_.width, width, rows, to + above * across, gap_);
    } else {
      for (i64 r = 0; r < inside; ++r) {
        copy(bordered_.data + border_w_, rows + r * step * p_.width, p_.width);
        f_.split(1, 0, width, bordered_.data, to + (above + r) * across, gap_);
      }
    }
    zeros(0, above);  // after what is written too much
    zeros(above + inside, count - above - inside);
  }

  void transform(i64 block, i64 number, T* start, i64 panel_step, i64 apart) {
    tiles_.each_image(block, [&](const tile_rows_of& rows) {
      stage(rows, plane(rows.image, number));
      for (i64 y = 0; y < rows.count; ++y)
        tiles_.each_piece(rows.first_tile + y * tiles_.across(), tiles_.across(), [&](i64 panel, i64 column, i64 tile, i64 length) {
          const T* from = stage_.data + f_.tile * (y * stride_ + tile);
          f_.input(length, from, stride_, start + panel * panel_step + column, apart);
        });
    });
  }
  // Columns beyond the image stay zero from the beginning.
  void stage(const tile_rows_of& rows, const T* from) {
    for (i64 s = 0; s < f_.tile * (rows.count - 1) + p_.patch; ++s) {
      const i64 y = f_.tile * rows.row + s - p_.pad_h;
      T* to = stage_.data + s * stride_ + p_.pad_w;
      if (y >= 0 && y < p_.height)
        copy(to, from + y * p_.width, p_.width);
      else
        zero(to, p_.width);
    }
  }

  const kernels<T>& k_;
  const form& f_;
  const tiling& tiles_;
  planes p_;
  bool split_;
  i64 border_h_, border_w_;  // of zeros, beyond the padding of as many outputs as pixels
  i64 stride_, gap_;         // between rows that are staged whole; between the M x M kinds of split pixels
  scratch<T> bordered_;      // a row
  scratch<T> stage_;
};

// y = x correlated with kernels; taps(k) tells where the taps of input k lie for all outputs side by side: {first, stride}.
template <class Taps>
void correlate(device& d, const kernels<T>& k, const form& w, const conv_geometry& g, i64 group, const T* x, const Taps& taps,
               const T* bias, T* y) {
  const i64 in = g.group_channels(), out = g.group_outputs(), width = k.panel_width, parts = w.parts();
  const i64 u_apart = apart_for(k, in * out), enough = std::max<i64>(i64{1} << 17, 2 * parts * u_apart);
  const tiling tiles(k, w, g, std::max<i64>(width, enough / (parts * (in + out))));
  const even_blocks outputs(out, k.tile_rows);
  const i64 m_apart = apart_for(k, out * tiles.panels(0) * width);
  scratch<T> u(d, parts * u_apart), m(d, parts * m_apart);
  scratch<tile_piece> piece(d, width);
  for (i64 c = 0; c < in; ++c) {
    const auto [first, stride] = taps(c);
    for (i64 t = 0; t < outputs.blocks; ++t)  // [part][tile][k][row]
      w.weights(outputs.size(t), first + outputs.begin(t), stride, u.data + outputs.begin(t) * in + c * outputs.size(t), u_apart);
  }
  transformed v(d, k, parts, in, in, tiles.panels(0));
  transformer input(d, k, w, tiles, {x, g.channels, g.height, g.width, g.pad_h, g.pad_w, w.patch()});
  for (i64 block = 0; block < tiles.blocks(); ++block) {
    const i64 panels = tiles.panels(block);
    input.run(block, group * in, v);
    for (i64 f = 0; f < parts; ++f)
      for (i64 p = 0; p < panels; ++p)
        for (i64 t = 0; t < outputs.blocks; ++t)
          k.tile(outputs.size(t), in, u.data + f * u_apart + outputs.begin(t) * in, v.data.data + f * v.apart + p * in * width,
                 nullptr, m.data + f * m_apart + (p * out + outputs.begin(t)) * width, width);
    for (i64 p = 0; p < panels; ++p) {
      const int pieces = tiles.pieces(g, g.outputs, block, p, piece.data);
      for (i64 o = 0; o < out; ++o)
        w.output(m.data + (p * out + o) * width, m_apart, bias == nullptr ? T(0) : bias[group * out + o], piece.data, pieces,
                 g.out_w(), y + (group * out + o) * g.pixels());
    }
  }
}

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

template <int Tile>
void backward_data(device& d, const kernels<T>& k, const conv_geometry& g, const T* dy, const T* w, T* dx) {
  conv_geometry back = g;
  back.channels = g.outputs, back.outputs = g.channels;
  back.height = g.out_h(), back.width = g.out_w();
  back.pad_h = g.kernel_h - 1 - g.pad_h, back.pad_w = g.kernel_w - 1 - g.pad_w;
  const i64 channels = g.group_channels(), count = g.kernel_h * g.kernel_w;
  scratch<T> taps(d, g.patch());
  for (i64 group = 0; group < g.groups; ++group)
    correlate(
        d, k, form_of<Tile>(k, g), back, group, dy,
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
