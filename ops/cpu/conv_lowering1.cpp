// lowering1: the patches of all output pixels as columns, then one product. The product runs over
// panels of output pixels; a panel may span images (Hadjis et al. 2015, "Caffe con Troll"). Each
// panel is lowered just before its product, so its part of the column matrix stays in the cache.
// The other algorithms use lowering1 for f64.
//
//   forward            y[o][panel] = w[o][k] * gather(x)            tiles of `tile_rows` outputs
//   backward, data     gather^T(w[k][o]^T * dy[o][panel])           scatter adds to the stage of dx
//   backward, weights  dw[o][k] += dy[o][panel] . gather(x)[k]      dot tiles over a block's panels
#include "ops/cpu/conv.hpp"
#include "ops/cpu/conv_stage.hpp"

namespace troupe::cpu {

namespace {

template <class T>
void forward(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* w, const T* bias, T* y) {
  const i64 patch = g.patch(), outputs = g.group_outputs(), width = k.panel_width;
  lowering<T> low(d, k, g, 16 * width);
  scratch<std::int32_t> offsets(d, patch);
  scratch<T> packed(d, outputs * patch), panel(d, patch * width + k.slack), spill(d, k.tile_rows * width);
  low.offsets(offsets.data, false);
  const even_blocks tiles(outputs, k.tile_rows);
  for (i64 group = 0; group < g.groups; ++group) {
    const T* weights = w + group * outputs * patch;
    for (i64 t = 0; t < tiles.blocks; ++t)  // [tile][k][row]
      for (i64 i = 0; i < patch; ++i)
        for (i64 r = 0; r < tiles.size(t); ++r)
          packed.data[tiles.begin(t) * patch + i * tiles.size(t) + r] = weights[(tiles.begin(t) + r) * patch + i];
    const output_panels<T> out{low, k, g, group};
    for (i64 block = 0; block < low.blocks(); ++block) {
      low.load(block, group, x);
      for (i64 p = 0; p < low.panels(block); ++p) {
        k.gather_panel(low.runs(block, p), patch, offsets.data, low.stage(), panel.data);
        for (i64 t = 0; t < tiles.blocks; ++t) {
          const i64 row = tiles.begin(t);
          const T* b = bias == nullptr ? nullptr : bias + group * outputs + row;
          low.each_piece(block, p, g.pixels(), [&](i64 image, i64 pixel, i64 column, i64 length) {
            T* to = y + out.start(block, image, pixel) + row * g.pixels();
            const bool whole = length == width;
            if (column == 0)
              k.tile(tiles.size(t), patch, packed.data + row * patch, panel.data, b, whole ? to : spill.data,
                     whole ? g.pixels() : width);
            if (whole) return;
            for (i64 r = 0; r < tiles.size(t); ++r) copy(to + r * g.pixels(), spill.data + r * width + column, length);
          });
        }
      }
    }
  }
}

template <class T>
void backward_data(device& d, const kernels<T>& k, const conv_geometry& g, const T* dy, const T* w, T* dx) {
  const i64 patch = g.patch(), outputs = g.group_outputs(), width = k.panel_width;
  lowering<T> low(d, k, g, 16 * width);
  scratch<std::int32_t> offsets(d, patch);
  scratch<T> packed(d, outputs * patch), panel(d, outputs * width), columns(d, k.tile_rows * width + k.slack);
  // Channel fastest: consecutive rows then belong to different planes, and no addition depends on
  // the preceding store.
  low.offsets(offsets.data, true);
  const i64 taps = g.kernel_h * g.kernel_w, channels = g.group_channels();
  const even_blocks tiles(patch, k.tile_rows);
  for (i64 group = 0; group < g.groups; ++group) {
    const T* weights = w + group * outputs * patch;
    for (i64 t = 0; t < tiles.blocks; ++t)  // [tile][output][row]
      for (i64 o = 0; o < outputs; ++o)
        for (i64 r = 0; r < tiles.size(t); ++r) {
          const i64 row = tiles.begin(t) + r;
          packed.data[tiles.begin(t) * outputs + o * tiles.size(t) + r] =
              weights[o * patch + row % channels * taps + row / channels];
        }
    const output_panels<T> out{low, k, g, group};
    for (i64 block = 0; block < low.blocks(); ++block) {
      low.clear();
      for (i64 p = 0; p < low.panels(block); ++p) {
        out.pack(block, p, dy, 0, outputs, panel.data);
        const run_list runs = low.runs(block, p);
        for (i64 t = 0; t < tiles.blocks; ++t) {
          k.tile(tiles.size(t), outputs, packed.data + tiles.begin(t) * outputs, panel.data, nullptr, columns.data, width);
          k.scatter_panel(runs, tiles.size(t), offsets.data + tiles.begin(t), columns.data, low.stage());
        }
      }
      low.unload(block, group, dx);
    }
  }
}

template <class T>
void backward_weights(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* dy, T* dw, bool add) {
  const i64 patch = g.patch(), outputs = g.group_outputs(), width = k.panel_width;
  lowering<T> low(d, k, g, 32 * width);
  const i64 most = low.max_panels();
  scratch<std::int32_t> offsets(d, patch);
  scratch<run_list> runs(d, most);
  // left: [row block][panel][row][width]; right: [panel][column][width] of one column block. Both
  // are read sequentially.
  scratch<T> left(d, most * outputs * width), right(d, most * k.dot_columns * width + k.slack);
  low.offsets(offsets.data, false);
  if (!add) zero(dw, g.outputs * patch);
  const even_blocks rows(outputs, k.dot_rows), columns(patch, k.dot_columns);
  for (i64 group = 0; group < g.groups; ++group) {
    T* to = dw + group * outputs * patch;
    const output_panels<T> out{low, k, g, group};
    for (i64 block = 0; block < low.blocks(); ++block) {
      const i64 panels = low.panels(block);
      low.load(block, group, x);
      for (i64 p = 0; p < panels; ++p) {
        runs.data[p] = low.runs(block, p);
        for (i64 r = 0; r < rows.blocks; ++r)
          out.pack(block, p, dy, rows.begin(r), rows.size(r), left.data + (rows.begin(r) * panels + p * rows.size(r)) * width);
      }
      for (i64 c = 0; c < columns.blocks; ++c) {
        const i64 first = columns.begin(c), stride = columns.size(c) * width;
        for (i64 p = 0; p < panels; ++p)
          k.gather_panel(runs.data[p], columns.size(c), offsets.data + first, low.stage(), right.data + p * stride);
        for (i64 r = 0; r < rows.blocks; ++r)
          k.dot(rows.size(r), columns.size(c), panels, left.data + rows.begin(r) * panels * width, rows.size(r) * width, right.data,
                stride, to + rows.begin(r) * patch + first, patch);
      }
    }
  }
}

}  // namespace

template <class T>
conv_passes<T> conv_lowering1() {
  return {forward<T>, backward_data<T>, backward_weights<T>};
}
template conv_passes<float> conv_lowering1();
template conv_passes<double> conv_lowering1();

}  // namespace troupe::cpu
