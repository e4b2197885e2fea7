// The algorithm `direct` for few channels or features: vectors hold images (kernels: batch.inl). A
// block of `lanes` images is stored as [channel][row][pixel][image], with zero padding; missing
// images are zero.
//   forward            tiles of outputs x two pixels; the sum over the patch is split into
//                      stretches whose pixels stay in the L1 cache
//   backward, data     tiles of patch elements x two pixels, summed over the outputs and added at
//                      the patch's position
//   backward, weights  tiles of outputs x patch elements, summed over the pixels, then over the
//                      images of the vector
#include <optional>

#include "ops/cpu/conv.hpp"
#include "ops/cpu/conv_stage.hpp"

namespace troupe::cpu {

namespace {

using T = float;

// Converts blocks of images between NCHW and vectors of images.
class image_vectors {
 public:
  image_vectors(device& d, const kernels<T>& k, i64 batch, i64 planes, i64 channels, i64 height, i64 width, i64 pad_h, i64 pad_w)
      : k_(k),
        batch_(batch),
        planes_(planes),
        channels_(channels),
        height_(height),
        width_(width),
        pad_h_(pad_h),
        pad_w_(pad_w),
        row_((width + 2 * pad_w) * k.lanes),
        plane_((height + 2 * pad_h) * row_),
        memory_(d, channels * plane_) {
    assert(channels * plane_ < (i64{1} << 31));
    if (pad_h > 0 || pad_w > 0) clear();  // otherwise every element is written before it is read
  }
  T* data() { return memory_.data; }
  void clear() { zero(memory_.data, channels_ * plane_); }
  i64 blocks() const { return ceil_div(batch_, k_.lanes); }
  i64 row() const { return row_; }
  i64 plane() const { return plane_; }

  // Loads channels [first, first + channels) of a block's images.
  void load(i64 block, i64 first, const T* x) {
    if (valid(block) < k_.lanes) clear();
    each(block, first, [&](i64 at, i64 pixels, T* to) {
      k_.transpose_matrix(valid(block), pixels, x + at, planes_ * height_ * width_, to, k_.lanes);
    });
  }
  void unload(i64 block, i64 first, T* x) {
    each(block, first, [&](i64 at, i64 pixels, T* from) {
      k_.transpose_matrix(pixels, valid(block), from, k_.lanes, x + at, planes_ * height_ * width_);
    });
  }

 private:
  i64 valid(i64 block) const { return std::min<i64>(k_.lanes, batch_ - block * k_.lanes); }
  // Calls f(index of the first image's element, pixels, address): per plane without padding, else
  // per row.
  template <class F>
  void each(i64 block, i64 first, F f) {
    const bool whole = pad_h_ == 0 && pad_w_ == 0;
    for (i64 c = 0; c < channels_; ++c)
      for (i64 y = 0; y < (whole ? 1 : height_); ++y)
        f(((block * k_.lanes * planes_ + first + c) * height_ + y) * width_, whole ? height_ * width_ : width_,
          memory_.data + c * plane_ + (y + pad_h_) * row_ + pad_w_ * k_.lanes);
  }

  const kernels<T>& k_;
  i64 batch_, planes_, channels_, height_, width_, pad_h_, pad_w_, row_, plane_;
  scratch<T> memory_;
};

image_vectors vectors_of_x(device& d, const kernels<T>& k, const conv_geometry& g) {
  return {d, k, g.batch, g.channels, g.group_channels(), g.height, g.width, g.pad_h, g.pad_w};
}
image_vectors vectors_of_y(device& d, const kernels<T>& k, const conv_geometry& g) {
  return {d, k, g.batch, g.outputs, g.group_outputs(), g.out_h(), g.out_w(), 0, 0};
}

// Offsets of the patch elements in the vectors of x, in the order of the weights.
void patch_offsets(const kernels<T>& k, const conv_geometry& g, const image_vectors& x, std::int32_t* to) {
  for (i64 c = 0; c < g.group_channels(); ++c)
    for (i64 i = 0; i < g.kernel_h; ++i)
      for (i64 j = 0; j < g.kernel_w; ++j)
        *to++ = static_cast<std::int32_t>(c * x.plane() + i * g.dilation_h * x.row() + j * g.dilation_w * k.lanes);
}

// Calls f(offset in x, offset in y, places) for the pixels of an image, two at a time along each
// row.
template <class F>
void each_place(const kernels<T>& k, const conv_geometry& g, const image_vectors& x, F f) {
  for (i64 oy = 0; oy < g.out_h(); ++oy)
    for (i64 ox = 0; ox < g.out_w(); ox += 2)
      f(oy * g.stride_h * x.row() + ox * g.stride_w * k.lanes, (oy * g.out_w() + ox) * k.lanes, ox + 1 < g.out_w() ? 2 : 1);
}

// Forward of one block: a group's outputs as vectors of images.
struct forward_blocks {
  const kernels<T>& k;
  const conv_geometry& g;
  i64 patch, outputs;
  image_vectors from, to;
  scratch<std::int32_t> offsets, planes;
  scratch<T> packed;
  even_blocks tiles, stretches;

  forward_blocks(device& d, const kernels<T>& kernel, const conv_geometry& geometry)
      : k(kernel),
        g(geometry),
        patch(g.patch()),
        outputs(g.group_outputs()),
        from(vectors_of_x(d, k, g)),
        to(vectors_of_y(d, k, g)),
        offsets(d, patch),
        planes(d, outputs),
        packed(d, outputs * patch),
        tiles(outputs, k.tile_rows),
        stretches(patch, 250) {
    patch_offsets(k, g, from, offsets.data);
    for (i64 o = 0; o < outputs; ++o) planes.data[o] = static_cast<std::int32_t>(o * to.plane());
  }

  void pack(i64 group, const T* w) {
    for (i64 t = 0; t < tiles.blocks; ++t)  // [tile][k][row]
      k.transpose_matrix(tiles.size(t), patch, w + (group * outputs + tiles.begin(t)) * patch, patch,
                         packed.data + tiles.begin(t) * patch, tiles.size(t));
  }
  void run(i64 block, i64 group, const T* x, const T* bias) {
    const T* biases = bias == nullptr ? nullptr : bias + group * outputs;
    from.load(block, group * g.group_channels(), x);
    for (i64 s = 0; s < stretches.blocks; ++s) {
      const i64 first = stretches.begin(s);
      const batch_product<T> sum{stretches.size(s), offsets.data + first, g.stride_w * k.lanes, k.lanes, s > 0};
      each_place(k, g, from, [&](i64 in, i64 out, int places) {
        for (i64 t = 0; t < tiles.blocks; ++t)
          k.batch_tile(tiles.size(t), places, sum, packed.data + tiles.begin(t) * patch + first * tiles.size(t),
                       biases == nullptr || s > 0 ? nullptr : biases + tiles.begin(t), from.data() + in,
                       planes.data + tiles.begin(t), to.data() + out);
      });
    }
  }
};

void forward(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* w, const T* bias, T* y) {
  forward_blocks f(d, k, g);
  for (i64 group = 0; group < g.groups; ++group) {
    f.pack(group, w);
    for (i64 block = 0; block < f.from.blocks(); ++block) {
      f.run(block, group, x, bias);
      f.to.unload(block, group * f.outputs, y);
    }
  }
}

// Backward of one block: gradients of x from those of y, as vectors of images.
struct data_blocks {
  const kernels<T>& k;
  const conv_geometry& g;
  i64 patch, outputs;
  image_vectors to;
  scratch<std::int32_t> offsets, planes;
  scratch<T> packed;
  even_blocks tiles;

  data_blocks(device& d, const kernels<T>& kernel, const conv_geometry& geometry)
      : k(kernel),
        g(geometry),
        patch(g.patch()),
        outputs(g.group_outputs()),
        to(vectors_of_x(d, k, g)),
        offsets(d, patch),
        planes(d, outputs),
        packed(d, outputs * patch),
        tiles(patch, k.tile_rows) {
    patch_offsets(k, g, to, offsets.data);
    for (i64 o = 0; o < outputs; ++o) planes.data[o] = static_cast<std::int32_t>(o * g.pixels() * k.lanes);
  }

  void pack(i64 group, const T* w) {
    for (i64 t = 0; t < tiles.blocks; ++t)  // [tile][output][row]
      for (i64 o = 0; o < outputs; ++o)
        copy(packed.data + tiles.begin(t) * outputs + o * tiles.size(t), w + (group * outputs + o) * patch + tiles.begin(t),
             tiles.size(t));
  }
  void run(i64 block, i64 group, image_vectors& from, T* dx) {
    const batch_product<T> sum{outputs, planes.data, k.lanes, g.stride_w * k.lanes, true};
    to.clear();
    each_place(k, g, to, [&](i64 out, i64 in, int places) {
      for (i64 t = 0; t < tiles.blocks; ++t)
        k.batch_tile(tiles.size(t), places, sum, packed.data + tiles.begin(t) * outputs, nullptr, from.data() + in,
                     offsets.data + tiles.begin(t), to.data() + out);
    });
    to.unload(block, group * g.group_channels(), dx);
  }
};

void backward_data(device& d, const kernels<T>& k, const conv_geometry& g, const T* dy, const T* w, T* dx) {
  image_vectors from = vectors_of_y(d, k, g);
  data_blocks b(d, k, g);
  for (i64 group = 0; group < g.groups; ++group) {
    b.pack(group, w);
    for (i64 block = 0; block < from.blocks(); ++block) {
      from.load(block, group * b.outputs, dy);
      b.run(block, group, from, dx);
    }
  }
}

// Backward of one block: adds the gradients of the weights.
struct weights_blocks {
  const kernels<T>& k;
  const conv_geometry& g;
  i64 patch, outputs;
  image_vectors right;
  scratch<std::int32_t> offsets;
  even_blocks rows, columns;

  weights_blocks(device& d, const kernels<T>& kernel, const conv_geometry& geometry)
      : k(kernel),
        g(geometry),
        patch(g.patch()),
        outputs(g.group_outputs()),
        right(vectors_of_x(d, k, g)),
        offsets(d, patch),
        rows(outputs, k.dot_rows),
        columns(patch, k.dot_columns) {
    patch_offsets(k, g, right, offsets.data);
  }

  void run(i64 block, i64 group, image_vectors& left, const T* x, T* dw) {
    const batch_sum sum{g.out_h(), g.out_w(), g.stride_h * right.row(), g.stride_w * k.lanes, left.plane()};
    right.load(block, group * g.group_channels(), x);
    for (i64 r = 0; r < rows.blocks; ++r)
      for (i64 c = 0; c < columns.blocks; ++c)
        k.batch_dot(rows.size(r), columns.size(c), sum, left.data() + rows.begin(r) * left.plane(), right.data(),
                    offsets.data + columns.begin(c), dw + (group * outputs + rows.begin(r)) * patch + columns.begin(c), patch);
  }
};

void backward_weights(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* dy, T* dw, bool add) {
  image_vectors left = vectors_of_y(d, k, g);
  weights_blocks b(d, k, g);
  if (!add) zero(dw, g.outputs * b.patch);
  for (i64 group = 0; group < g.groups; ++group)
    for (i64 block = 0; block < left.blocks(); ++block) {
      left.load(block, group * b.outputs, dy);
      b.run(block, group, left, x, dw);
    }
}

// Results of pooling a group's outputs, and the indices of the maxima. Indices are integers, but
// they are only moved, so they share the vectors' float type.
struct pooled_vectors {
  pool_geometry window;
  image_vectors values, winners;
  pooled_vectors(device& d, const kernels<T>& k, const conv_geometry& g, const pool_geometry& w)
      : window(w),
        values(d, k, g.batch, g.outputs, g.group_outputs(), w.out_h, w.out_w, 0, 0),
        winners(d, k, g.batch, g.outputs, g.group_outputs(), w.out_h, w.out_w, 0, 0) {
    window.planes = g.group_outputs();
  }
  std::int32_t* at() { return reinterpret_cast<std::int32_t*>(winners.data()); }
};

}  // namespace

conv_passes<float> conv_batch() { return {forward, backward_data, backward_weights}; }

void conv_batch_pooled(device& d, const kernels<T>& k, const conv_geometry& g, const pool_geometry& window, const T* x, const T* w,
                       const T* bias, T* y, std::int32_t* index) {
  forward_blocks f(d, k, g);
  pooled_vectors pooled(d, k, g, window);
  for (i64 group = 0; group < g.groups; ++group) {
    f.pack(group, w);
    for (i64 block = 0; block < f.from.blocks(); ++block) {
      f.run(block, group, x, bias);
      k.batch_pool(pooled.window, f.to.data(), pooled.values.data(), pooled.at());
      pooled.values.unload(block, group * f.outputs, y);
      pooled.winners.unload(block, group * f.outputs, reinterpret_cast<T*>(index));
    }
  }
}

void conv_batch_backward(device& d, const kernels<T>& k, const conv_geometry& g, const pool_geometry* window, const T* x,
                         const T* w, const T* dy, const std::int32_t* index, T* dx, T* dw, T* db) {
  const i64 outputs = g.group_outputs();
  image_vectors gradient = vectors_of_y(d, k, g);
  std::optional<pooled_vectors> pooled;
  if (window != nullptr) pooled.emplace(d, k, g, *window);
  std::optional<data_blocks> data;
  if (dx != nullptr) data.emplace(d, k, g);
  std::optional<weights_blocks> weights;
  if (dw != nullptr) weights.emplace(d, k, g), zero(dw, g.outputs * g.patch());
  scratch<T> sums(d, outputs);
  if (db != nullptr) zero(db, g.outputs);
  for (i64 group = 0; group < g.groups; ++group) {
    if (data) data->pack(group, w);
    for (i64 block = 0; block < gradient.blocks(); ++block) {
      if (pooled) {
        pooled->values.load(block, group * outputs, dy);
        pooled->winners.load(block, group * outputs, reinterpret_cast<const T*>(index));
        k.batch_pool_backward(pooled->window, pooled->values.data(), pooled->at(), gradient.data());
      } else {
        gradient.load(block, group * outputs, dy);
      }
      if (db != nullptr) {
        k.reduce_sum(1, outputs, gradient.plane(), gradient.data(), sums.data);
        k.axpy(outputs, T(1), sums.data, db + group * outputs);
      }
      if (weights) weights->run(block, group, gradient, x, dw);
      if (data) data->run(block, group, gradient, dx);
    }
  }
}

}  // namespace troupe::cpu
