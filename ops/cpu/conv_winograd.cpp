// winograd: F(2x2, 3x3) (Lavin and Gray 2016, "Fast algorithms for convolutional neural networks"): 16 products of matrices in place of
// 36 for every tile of 2x2 outputs. Kernel 3, stride 1 (kernels: winograd.inl).
//   forward            M[f] = U[f] V[f] for the 16 elements f of the transforms U of w [o][c] and V of x [c][tile];  y = A^T M A + bias
//   backward, data     the same with the kernel turned round and features and channels exchanged
//   backward, weights  dU[f] = (A dy A^T)[f] V[f]^T over all tiles;  dw = G^T dU G
// Tiles are numbered row by row and image by image; a block is some rows of them, cut into panels. The sums are of fp32 and lose about
// one bit to the plain ones.
#include <utility>

#include "ops/cpu/conv.hpp"
#include "ops/cpu/conv_stage.hpp"

namespace troupe::cpu {

namespace {

using T = float;
constexpr i64 parts = 16;

// Rows [r, r + n) of the tiles of one image.
struct tile_rows_of {
  i64 image, row, count, first_tile;  // first_tile: in the block
};

class tiling {
 public:
  tiling(const kernels<T>& k, const conv_geometry& g, i64 tiles_wanted)
      : width_(k.panel_width), rows_(ceil_div(g.out_h(), 2)), across_(ceil_div(g.out_w(), 2)), all_(g.batch * rows_) {
    block_ = std::clamp<i64>(tiles_wanted / across_, 1, all_);
  }
  i64 across() const { return across_; }
  i64 blocks() const { return ceil_div(all_, block_); }
  i64 tiles(i64 block) const { return (std::min(all_, (block + 1) * block_) - block * block_) * across_; }
  i64 panels(i64 block) const { return ceil_div(tiles(block), width_); }
  i64 most_rows() const { return std::min(block_, rows_); }

  template <class F>
  void each_image(i64 block, F f) const {
    const i64 end = std::min(all_, (block + 1) * block_);
    for (i64 at = block * block_; at < end;) {
      const i64 count = std::min(rows_ - at % rows_, end - at);
      f(tile_rows_of{at / rows_, at % rows_, count, (at - block * block_) * across_});
      at += count;
    }
  }
  // f(panel, column, first tile of the row, tiles) for the pieces of the row of tiles that starts at `first`.
  template <class F>
  void each_piece(i64 first, F f) const {
    for (i64 t = 0; t < across_;) {
      const i64 column = (first + t) % width_, length = std::min(across_ - t, width_ - column);
      f((first + t) / width_, column, t, length);
      t += length;
    }
  }
  // f(image, row of tiles, first tile of it, tiles, column) for the pieces of a panel.
  template <class F>
  void each_in_panel(i64 block, i64 panel, F f) const {
    const i64 end = std::min((panel + 1) * width_, tiles(block));
    for (i64 t = panel * width_; t < end;) {
      const i64 row = block * block_ + t / across_, x = t % across_, length = std::min(across_ - x, end - t);
      f(row / rows_, row % rows_, x, length, t - panel * width_);
      t += length;
    }
  }

 private:
  i64 width_, rows_, across_, all_, block_;
};

// The transform of planes [rows][panels of tiles]: rows in blocks (one block of all for products, small ones for dots), each
// [panel][row][tile].
struct transformed {
  even_blocks blocks;
  i64 apart;  // between the 16 parts
  scratch<T> data;
  transformed(device& d, const kernels<T>& k, i64 rows, i64 at_once, i64 panels)
      : blocks(rows, at_once), apart(rows * panels * k.panel_width), data(d, parts * apart + k.slack) {}
};

// The planes that are transformed: of x (patches of 4x4, with padding) or of dy (2x2).
struct planes {
  const T* data;
  i64 all, height, width, pad_h, pad_w;  // `all` planes in each image
  i64 patch;                             // rows and columns of one tile's patch
};

class transformer {
 public:
  transformer(device& d, const kernels<T>& k, const tiling& t, const planes& p)
      : k_(k), tiles_(t), p_(p), stride_(2 * t.across() + 2), plane_(d, (2 * t.most_rows() + 2) * stride_ + 4 * k.panel_width) {
    zero(plane_.data, (2 * t.most_rows() + 2) * stride_ + 4 * k.panel_width);
  }

  void run(i64 block, i64 first_plane, transformed& to) {
    const i64 panels = tiles_.panels(block), filled = tiles_.tiles(block) % k_.panel_width;
    for (i64 b = 0; b < to.blocks.blocks; ++b)
      for (i64 r = 0; r < to.blocks.size(b); ++r) {
        T* start = to.data.data + (to.blocks.begin(b) * panels + r) * k_.panel_width;
        const i64 panel_step = to.blocks.size(b) * k_.panel_width;
        tiles_.each_image(block, [&](const tile_rows_of& rows) {
          stage(rows, first_plane + to.blocks.begin(b) + r);
          for (i64 y = 0; y < rows.count; ++y)
            tiles_.each_piece(rows.first_tile + y * tiles_.across(), [&](i64 panel, i64 column, i64 tile, i64 length) {
              const T* from = plane_.data + 2 * y * stride_ + 2 * tile;
              (p_.patch == 4 ? k_.winograd_input : k_.winograd_gradient)(length, from, stride_, start + panel * panel_step + column,
                                                                         to.apart);
            });
        });
        for (i64 f = 0; filled > 0 && f < parts; ++f)
          zero(start + f * to.apart + (panels - 1) * panel_step + filled, k_.panel_width - filled);
      }
  }

 private:
  // Columns beyond the image stay zero from the beginning.
  void stage(const tile_rows_of& rows, i64 plane) {
    const T* from = p_.data + (rows.image * p_.all + plane) * p_.height * p_.width;
    for (i64 s = 0; s < 2 * (rows.count - 1) + p_.patch; ++s) {
      const i64 y = 2 * rows.row + s - p_.pad_h;
      T* to = plane_.data + s * stride_ + p_.pad_w;
      if (y >= 0 && y < p_.height)
        copy(to, from + y * p_.width, p_.width);
      else
        zero(to, p_.width);
    }
  }

  const kernels<T>& k_;
  const tiling& tiles_;
  planes p_;
  i64 stride_;
  scratch<T> plane_;
};

// y = x correlated with kernels; taps(k) tells where the taps of input k lie for all outputs side by side: {first, stride}.
template <class Taps>
void correlate(device& d, const kernels<T>& k, const conv_geometry& g, i64 group, const T* x, const Taps& taps, const T* bias,
               T* y) {
  const i64 in = g.group_channels(), out = g.group_outputs(), width = k.panel_width;
  const i64 u_apart = in * out, enough = std::max<i64>(i64{1} << 18, 2 * parts * u_apart);
  const tiling tiles(k, g, std::max<i64>(width, enough / (parts * (in + out))));
  const even_blocks outputs(out, k.tile_rows);
  scratch<T> u(d, parts * u_apart), m(d, parts * out * tiles.panels(0) * width), rows(d, 4 * width);
  for (i64 c = 0; c < in; ++c) {
    const auto [first, stride] = taps(c);
    for (i64 t = 0; t < outputs.blocks; ++t)  // [part][tile][k][row]
      k.winograd_weights(outputs.size(t), first + outputs.begin(t), stride, u.data + outputs.begin(t) * in + c * outputs.size(t),
                         u_apart);
  }
  transformed v(d, k, in, in, tiles.panels(0));
  transformer input(d, k, tiles, {x, g.channels, g.height, g.width, g.pad_h, g.pad_w, 4});
  const i64 m_apart = out * tiles.panels(0) * width;
  for (i64 block = 0; block < tiles.blocks(); ++block) {
    const i64 panels = tiles.panels(block);
    input.run(block, group * in, v);
    for (i64 f = 0; f < parts; ++f)
      for (i64 p = 0; p < panels; ++p)
        for (i64 t = 0; t < outputs.blocks; ++t)
          k.tile(outputs.size(t), in, u.data + f * u_apart + outputs.begin(t) * in, v.data.data + f * v.apart + p * in * width,
                 nullptr, m.data + f * m_apart + (p * out + outputs.begin(t)) * width, width);
    for (i64 p = 0; p < panels; ++p)
      for (i64 o = 0; o < out; ++o) {
        k.winograd_output(m.data + (p * out + o) * width, m_apart, bias == nullptr ? T(0) : bias[group * out + o], rows.data,
                          2 * width);
        tiles.each_in_panel(block, p, [&](i64 image, i64 row, i64 tile, i64 length, i64 column) {
          T* to = y + (image * g.outputs + group * out + o) * g.pixels() + 2 * row * g.out_w() + 2 * tile;
          const i64 count = std::min(2 * length, g.out_w() - 2 * tile);
          copy(to, rows.data + 2 * column, count);
          if (2 * row + 1 < g.out_h()) copy(to + g.out_w(), rows.data + 2 * width + 2 * column, count);
        });
      }
  }
}

void forward(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* w, const T* bias, T* y) {
  const i64 patch = g.patch(), out = g.group_outputs();
  scratch<T> turned(d, patch * out);
  for (i64 group = 0; group < g.groups; ++group) {
    k.transpose_matrix(out, patch, w + group * out * patch, patch, turned.data, out);
    correlate(
        d, k, g, group, x, [&](i64 c) { return std::pair<const T*, i64>(turned.data + c * 9 * out, out); }, bias, y);
  }
}

void backward_data(device& d, const kernels<T>& k, const conv_geometry& g, const T* dy, const T* w, T* dx) {
  conv_geometry back = g;
  back.channels = g.outputs, back.outputs = g.channels;
  back.height = g.out_h(), back.width = g.out_w();
  back.pad_h = 2 - g.pad_h, back.pad_w = 2 - g.pad_w;
  const i64 channels = g.group_channels();
  scratch<T> taps(d, g.patch());
  for (i64 group = 0; group < g.groups; ++group)
    correlate(
        d, k, back, group, dy,
        [&](i64 o) {  // from the last tap to the first
          k.transpose_matrix(channels, 9, w + (group * g.group_outputs() + o) * g.patch(), 9, taps.data, channels);
          return std::pair<const T*, i64>(taps.data + 8 * channels, -channels);
        },
        nullptr, dx);
}

void backward_weights(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* dy, T* dw, bool add) {
  const i64 in = g.group_channels(), out = g.group_outputs(), width = k.panel_width;
  const tiling tiles(k, g, 32 * width);
  transformed v(d, k, in, k.dot_columns, tiles.panels(0)), e(d, k, out, k.dot_rows, tiles.panels(0));
  transformer input(d, k, tiles, {x, g.channels, g.height, g.width, g.pad_h, g.pad_w, 4});
  transformer gradient(d, k, tiles, {dy, g.outputs, g.out_h(), g.out_w(), 0, 0, 2});
  const i64 apart = in * out;
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
      k.winograd_weights_gradient(in, u.data + o * in, apart, taps.data, in);
      T* to = dw + (group * out + o) * g.patch();
      k.transpose_matrix(9, in, taps.data, in, add ? turned.data : to, 9);
      if (add) k.axpy(g.patch(), T(1), turned.data, to);
    }
  }
}

}  // namespace

conv_passes<float> conv_winograd() { return {forward, backward_data, backward_weights}; }

}  // namespace troupe::cpu
