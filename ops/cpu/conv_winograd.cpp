// winograd: F(M x M, R x R) (Lavin and Gray 2016, "Fast algorithms for convolutional neural
// networks"): (M + R - 1)^2 matrix products instead of M^2 R^2 for every tile of M x M outputs.
// `winograd` has M = 2, R = 3 or 5; `winograd4` has M = 4, R = 3. Stride 1 (kernels: winograd.inl).
//   forward            M[f] = U[f] V[f] for the elements f of the transforms U of w [o][c] and V of
//                      x [c][tile];  y = A^T M A + bias
//   backward, data     the same with the kernel rotated and features and channels exchanged; or, if
//                      y has fewer tiles than x, the adjoint: patches B [U[f]^T (A dy A^T)[f]] B^T
//                      of dx, which overlap and are added
//   backward, weights  dU[f] = (A dy A^T)[f] V[f]^T over all tiles;  dw = G^T dU G
// Tiles are numbered row by row and image by image. A block is several rows of tiles, split into
// panels. Sums are in fp32 and lose about one bit (patches of 4 x 4) or three bits (6 x 6) compared
// with the plain sums.
#include <utility>

#include "ops/cpu/conv.hpp"
#include "ops/cpu/conv_stage.hpp"
#include "ops/cpu/winograd_transformer.hpp"

namespace troupe::cpu {
namespace winograd {
namespace {

template <int Tile>
const form& form_of(const kernels<T>& k, const conv_geometry& g) {
  return Tile == 4 ? k.winograd4x3 : g.kernel_h == 3 ? k.winograd2x3 : k.winograd2x5;
}

// Computes the products M[f] = U[f] V[f], block by block. taps(k) returns the address of input k's
// taps for the first output and the stride between outputs: {first, stride}.
class products {
 public:
  template <class Taps>
  products(device& d, const kernels<T>& k, const form& w, i64 in, i64 out, i64 max_panels, const Taps& taps)
      : k_(k),
        in_(in),
        out_(out),
        parts_(w.parts()),
        u_apart_(apart_for(k, in * out)),
        apart_(apart_for(k, out * max_panels * k.panel_width)),
        rows_(out, k.tile_rows),
        u_(d, parts_ * u_apart_),
        m_(d, parts_ * apart_) {
    for (i64 c = 0; c < in; ++c) {
      const auto [first, stride] = taps(c);
      for (i64 t = 0; t < rows_.blocks; ++t)  // [part][tile][k][row]
        w.weights(rows_.size(t), first + rows_.begin(t), stride, u_.data + rows_.begin(t) * in + c * rows_.size(t), u_apart_);
    }
  }
  // Number of tiles for which the transforms of a block are about as large as U, or fit into the L2
  // cache.
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

// y = x correlated with the kernels.
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

// Computes planes of dx from the patches of a block's tiles. Patches extend over `more` neighbours
// in each direction. The grid of tiles has that many empty tiles between rows and between images,
// so that vectors can cross rows.
// size: distances in the grid and the memory that they describe are set once, and all passes read
// most of them
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
        places_((t.max_rows() + ceil_div(t.max_rows(), t.max_rows_of_an_image()) * more_) * pitch_),
        plane_(apart_for(k, front_ + places_)),
        gap_(f.tile * (places_ + k.lanes)),
        patches_(d, f.parts() * plane_ + k.lanes),
        rows_(d, f.tile * gap_),
        pieces_(d, t.panels(0) * k.panel_width),
        counts_(d, t.panels(0)) {}

  // Called before the planes of a block.
  void begin(i64 block) {
    block_ = block;
    if (tiles_.tiles(block) != filled_) zero(patches_.data, f_.parts() * plane_ + k_.lanes);
    filled_ = tiles_.tiles(block);
    for (i64 p = 0; p < tiles_.panels(block); ++p)
      counts_.data[p] = tiles_.grid_pieces(more_, block, p, pieces_.data + p * k_.panel_width);
  }

  // dx: the channel's plane of the first image. `number`: index of the channel among the products.
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
  // Copies the pixels of one image that the block's patches reach. The first ones may also have a
  // part from the preceding block.
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

// Number of images per block: close to `wanted` tiles, with few empty columns in the panels.
i64 images_of_a_block(i64 batch, i64 of_image, i64 wanted, i64 width) {
  const i64 most = std::clamp<i64>(wanted / of_image + 1, 1, batch);
  const auto panels = [&](i64 images) { return ceil_div(images * of_image, width); };
  i64 best = most;
  for (i64 n = most; 2 * n > most; --n)
    if (panels(n) * best < panels(best) * n) best = n;
  return best;
}

// Processes as many whole images at a time as a block holds, or several blocks of one image.
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
  const i64 max_panels = tiling_of(images).panels(0);
  products m(d, k, f, in, out, max_panels, [&](i64 o) {
    k.transpose_matrix(out, count, w + (group * in + o) * g.patch(), count, taps.data, out);
    return std::pair<const T*, i64>(taps.data, out);
  });
  transformed e(d, k, f.parts(), in, in, max_panels);
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
        [&](i64 o) {  // the kernel rotated: from the last tap to the first
          k.transpose_matrix(channels, count, w + (group * g.group_outputs() + o) * g.patch(), count, taps.data, channels);
          return std::pair<const T*, i64>(taps.data + (count - 1) * channels, -channels);
        },
        nullptr, dx);
}

template <int Tile>
void backward_weights(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* dy, T* dw, bool add) {
  const form& w = form_of<Tile>(k, g);
  const i64 in = g.group_channels(), out = g.group_outputs(), width = k.panel_width, parts = w.parts();
  const tiling tiles(k, w, g, 8 * width);  // few enough that both transforms fit into the L2 cache
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
}  // namespace winograd

conv_passes<float> conv_winograd() { return {winograd::forward<2>, winograd::backward_data<2>, winograd::backward_weights<2>}; }
conv_passes<float> conv_winograd4() { return {winograd::forward<4>, winograd::backward_data<4>, winograd::backward_weights<4>}; }

}  // namespace troupe::cpu
