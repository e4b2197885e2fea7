// The algorithm `direct`: no im2col. Vectors hold output features, and elements of the staged image
// are broadcast (kernels: direct.inl). If rows of outputs are whole vectors, forward uses vectors
// of pixels and broadcasts weights (batch.inl).
//   forward            strips of pixels of an output row x blocks of two vectors of features,
//                      summed over the whole patch in registers and written to NCHW by a
//                      transposition in registers
//   backward, data     the same with the kernel rotated and features and channels exchanged;
//                      lowering1 for strides
//   backward, weights  dy as [pixel][feature]; the sums of a few taps stay in registers over all
//                      pixels of a block of images
#include "ops/cpu/conv.hpp"
#include "ops/cpu/conv_stage.hpp"

namespace troupe::cpu {

namespace {

using T = float;

// Blocks of features, two vectors each; the last block may need only one.
struct feature_blocks {
  i64 features, lanes;
  i64 count() const { return ceil_div(features, 2 * lanes); }
  i64 first(i64 block) const { return block * 2 * lanes; }
  i64 valid(i64 block) const { return std::min(2 * lanes, features - first(block)); }
  int vectors(i64 block) const { return valid(block) > lanes ? 2 : 1; }
  i64 width(i64 block) const { return vectors(block) * lanes; }
  i64 padded() const { return count() == 0 ? 0 : first(count() - 1) + width(count() - 1); }
};

// Rows of whole vectors of pixels need no transposition: vectors hold pixels, and weights are
// broadcast.
bool along_rows(const kernels<T>& k, const conv_geometry& g) { return g.stride_w == 1 && g.out_w() % k.lanes == 0; }

void forward_along_rows(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* w, const T* bias, T* y) {
  const i64 patch = g.patch(), outputs = g.group_outputs(), pixels = g.pixels(), across = g.out_w() / k.lanes;
  lowering<T> low(d, k, g, 16 * k.panel_width);
  scratch<std::int32_t> offsets(d, patch), planes(d, outputs);
  scratch<T> packed(d, outputs * patch);
  low.offsets(offsets.data, false);
  for (i64 o = 0; o < outputs; ++o) planes.data[o] = static_cast<std::int32_t>(o * pixels);
  const even_blocks tiles(outputs, k.tile_rows);
  const auto vector_at = [&](i64 image, i64 v) { return low.row_offset(image, v / across) + v % across * k.lanes; };
  for (i64 group = 0; group < g.groups; ++group) {
    for (i64 t = 0; t < tiles.blocks; ++t)  // [tile][k][row]
      k.transpose_matrix(tiles.size(t), patch, w + (group * outputs + tiles.begin(t)) * patch, patch,
                         packed.data + tiles.begin(t) * patch, tiles.size(t));
    for (i64 block = 0; block < low.blocks(); ++block) {
      low.load(block, group, x);
      for (i64 b = 0; b < low.images(block); ++b) {
        T* to = y + ((low.first_image(block) + b) * g.outputs + group * outputs) * pixels;
        for (i64 v = 0, all = pixels / k.lanes; v < all; v += 2) {
          const int places = v + 1 < all ? 2 : 1;
          const i64 from = vector_at(b, v), apart = places == 2 ? vector_at(b, v + 1) - from : 0;
          const batch_product<T> sum{patch, offsets.data, apart, k.lanes, false};
          for (i64 t = 0; t < tiles.blocks; ++t)
            k.batch_tile(tiles.size(t), places, sum, packed.data + tiles.begin(t) * patch,
                         bias == nullptr ? nullptr : bias + group * outputs + tiles.begin(t), low.stage() + from,
                         planes.data + tiles.begin(t), to + v * k.lanes);
        }
      }
    }
  }
}

void forward(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* w, const T* bias, T* y) {
  if (along_rows(k, g)) return forward_along_rows(d, k, g, x, w, bias, y);
  const i64 patch = g.patch(), outputs = g.group_outputs();
  const feature_blocks features{outputs, k.lanes};
  lowering<T> low(d, k, g, 16 * k.panel_width);
  scratch<std::int32_t> offsets(d, patch);
  scratch<T> packed(d, features.padded() * patch), biases(d, features.padded());
  low.offsets(offsets.data, false);
  // Length of a stretch of the sum whose weights stay in the L1 cache between strips.
  constexpr i64 stretch = 160;
  const even_blocks strips(g.out_w(), k.tile_rows), stretches(patch, stretch);
  scratch<T> partial(d, stretches.blocks > 1 ? low.images(0) * g.pixels() * 2 * k.lanes : 1);
  for (i64 group = 0; group < g.groups; ++group) {
    zero(packed.data, features.padded() * patch);
    zero(biases.data, features.padded());
    if (bias != nullptr) copy(biases.data, bias + group * outputs, outputs);
    for (i64 f = 0; f < features.count(); ++f)
      k.transpose_matrix(features.valid(f), patch, w + (group * outputs + features.first(f)) * patch, patch,
                         packed.data + features.first(f) * patch, features.width(f));
    for (i64 block = 0; block < low.blocks(); ++block) {
      low.load(block, group, x);
      for (i64 f = 0; f < features.count(); ++f)
        for (i64 s = 0; s < stretches.blocks; ++s) {
          const i64 at = stretches.begin(s);
          const direct_sum<T> sum{stretches.size(s),
                                  offsets.data + at,
                                  packed.data + features.first(f) * patch + at * features.width(f),
                                  biases.data + features.first(f),
                                  features.valid(f),
                                  g.pixels(),
                                  s == 0,
                                  s == stretches.blocks - 1};
          for (i64 b = 0; b < low.images(block); ++b) {
            T* planes = y + ((low.first_image(block) + b) * g.outputs + group * outputs + features.first(f)) * g.pixels();
            T* parts = partial.data + b * g.pixels() * features.width(f);
            for (i64 oy = 0; oy < g.out_h(); ++oy)
              for (i64 t = 0; t < strips.blocks; ++t) {
                const i64 ox = strips.begin(t), pixel = oy * g.out_w() + ox;
                k.direct(features.vectors(f), strips.size(t), sum, low.stage() + low.row_offset(b, oy) + ox,
                         parts + pixel * features.width(f), planes + pixel);
              }
          }
        }
    }
  }
}

void backward_data(device& d, const kernels<T>& k, const conv_geometry& g, const T* dy, const T* w, T* dx) {
  conv_geometry back = g;
  back.channels = g.outputs, back.outputs = g.channels;
  back.height = g.out_h(), back.width = g.out_w();
  back.pad_h = g.dilation_h * (g.kernel_h - 1) - g.pad_h, back.pad_w = g.dilation_w * (g.kernel_w - 1) - g.pad_w;
  if (g.stride_h != 1 || g.stride_w != 1 || back.pad_h < 0 || back.pad_w < 0)
    return conv_lowering1<T>().backward_data(d, k, g, dy, w, dx);
  const i64 taps = g.kernel_h * g.kernel_w;
  scratch<T> turned(d, g.outputs * g.patch());
  T* to = turned.data;
  for (i64 group = 0; group < g.groups; ++group)
    for (i64 c = 0; c < g.group_channels(); ++c)
      for (i64 o = 0; o < g.group_outputs(); ++o) {
        const T* from = w + ((group * g.group_outputs() + o) * g.group_channels() + c) * taps;
        for (i64 t = taps; t-- > 0;) *to++ = from[t];
      }
  forward(d, k, back, dy, turned.data, nullptr, dx);
}

// Adjacent taps of the stage, in runs of at most direct_taps.
struct tap_run {
  i64 offset, first_row;  // in rows of the sums, in the order of the runs
  int taps;
};

// row_of[r]: the patch element of row r of the sums. Both lists use pool memory, so they do not
// allocate.
struct run_table {
  scratch<tap_run> runs;
  scratch<i64> row_of;
  i64 count = 0;

  run_table(device& d, const lowering<T>& low, const conv_geometry& g) : runs(d, g.patch()), row_of(d, g.patch()) {
    scratch<std::int32_t> offsets(d, g.patch());
    low.offsets(offsets.data, false);
    for (i64 first = 0; first < g.patch(); first += g.kernel_w) {
      i64 *row = row_of.data + first, *end = row + g.kernel_w;
      for (i64 j = 0; j < g.kernel_w; ++j) row[j] = first + j;
      std::sort(row, end, [&](i64 a, i64 b) { return offsets.data[a] < offsets.data[b]; });
      for (i64 j = 0; j < g.kernel_w; ++j) {
        tap_run* last = count > 0 ? runs.data + count - 1 : nullptr;
        const i64 at = offsets.data[row[j]];
        if (j == 0 || last->taps == direct_taps || at != last->offset + last->taps) {
          last = runs.data + count++;
          *last = {at, first + j, 0};
        }
        ++last->taps;
      }
    }
  }
};

// Adds all runs of one length over a block of images and a block of features, as many at a time as
// fit into registers.
void add_runs(const kernels<T>& k, const run_table& table, int taps, int vectors, const direct_block& b, const T* dy,
              const T* stage, T* sums, T* spare) {
  const int most = direct_groups(vectors, taps);
  i64 offset[direct_max_runs];
  T* to[direct_max_runs];
  int filled = 0;
  const auto flush = [&] {
    for (int i = filled; i < most; ++i) offset[i] = offset[0], to[i] = spare;
    k.direct_weights(vectors, taps, b, dy, stage, offset, to);
    filled = 0;
  };
  for (i64 r = 0; r < table.count; ++r) {
    const tap_run& run = table.runs.data[r];
    if (run.taps != taps) continue;
    offset[filled] = run.offset;
    to[filled] = sums + run.first_row * vectors * k.lanes;
    if (++filled == most) flush();
  }
  if (filled > 0) flush();
}

void backward_weights(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* dy, T* dw, bool add) {
  const i64 patch = g.patch(), outputs = g.group_outputs(), pixels = g.pixels();
  const feature_blocks features{outputs, k.lanes};
  lowering<T> low(d, k, g, 16 * k.panel_width);
  const run_table runs(d, low, g);
  const i64 most = low.images(0) * pixels * 2 * k.lanes;
  scratch<T> sums(d, features.padded() * patch), spread(d, most), spare(d, direct_taps * 2 * k.lanes), rows(d, 2 * k.lanes * patch);
  zero(spare.data, direct_taps * 2 * k.lanes);
  zero(spread.data, most);
  for (i64 group = 0; group < g.groups; ++group) {
    zero(sums.data, features.padded() * patch);
    for (i64 block = 0; block < low.blocks(); ++block) {
      low.load(block, group, x);
      const direct_block all{low.images(block), g.out_h(), g.out_w(), low.image_step(), low.row_step()};
      for (i64 f = 0; f < features.count(); ++f) {
        if (features.valid(f) < features.width(f)) zero(spread.data, most);  // elements that no transposition writes
        for (i64 b = 0; b < low.images(block); ++b)
          k.transpose_matrix(features.valid(f), pixels,
                             dy + ((low.first_image(block) + b) * g.outputs + group * outputs + features.first(f)) * pixels, pixels,
                             spread.data + b * pixels * features.width(f), features.width(f));
        for (int taps = 1; taps <= direct_taps; ++taps)
          add_runs(k, runs, taps, features.vectors(f), all, spread.data, low.stage(), sums.data + features.first(f) * patch,
                   spare.data);
      }
    }
    for (i64 f = 0; f < features.count(); ++f) {
      k.transpose_matrix(patch, features.valid(f), sums.data + features.first(f) * patch, features.width(f), rows.data, patch);
      for (i64 o = 0; o < features.valid(f); ++o) {
        T* to = dw + (group * outputs + features.first(f) + o) * patch;
        for (i64 r = 0; r < patch; ++r) {
          T& element = to[runs.row_of.data[r]];
          element = add ? element + rows.data[o * patch + r] : rows.data[o * patch + r];
        }
      }
    }
  }
}

}  // namespace

conv_passes<float> conv_direct() { return {forward, backward_data, backward_weights}; }

}  // namespace troupe::cpu
