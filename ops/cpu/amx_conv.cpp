// Convolutions on AMX tiles. Every pass is a sum over taps t of products of small matrices with
// planes that are shifted by the tap (amx_grid.hpp):
//   y[o][p]     = sum over t, v of w[o][v, t] x[v][p + shift(t)]
//                 tiles: outputs x channels, channels in pairs x pixels
//   dx[v][q]    = sum over t, o of w[o][v, t] dy[o][q - shift(t)]
//                 tiles: channels x outputs, outputs in pairs x pixels
//   dw[t][v][o] = sum over p of x[v][p + shift(t)] dy[o][p]
//                 tiles: channels x pixels, pixels in pairs x outputs
// The planes of a block of images are adjacent on one grid. dy is zero where the grid has no
// output, so a shift never reads values from another image. There is no im2col: each pass stores an
// element once, or several times if a group has few channels.
#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/conv_algorithm.hpp"
#include "ops/converted.hpp"
#include "ops/cpu/amx_grid.hpp"
#include "ops/cpu/amx_ops.hpp"

namespace troupe::cpu {

namespace {

// Size of the planes of a block of images: small enough to stay in the L2 cache while all rows of
// weights are read, large enough that the weights, or the sums of their gradient, are not read too
// often.
constexpr i64 tile_bytes = 2 * tile_elements, block_bytes = i64{1} << 19, block_bytes_of_weights = 3 * block_bytes;

i64 up(i64 n, i64 to) { return (n + to - 1) / to * to; }

tensor words(device& d, i64 n) { return tensor::allocate(d, shape{std::max<i64>(n, 1)}, dtype::bf16); }
std::uint16_t* at(tensor& t) { return static_cast<std::uint16_t*>(t.raw_mutable()); }

// The activations of one group and one block of images on the grid.
class staged {
 public:
  // `margin`: number of zeros before the first and after the last pixel that a tile may read.
  staged(device& d, i64 planes, i64 pixels, i64 margin) : planes_(planes), margin_(up(margin, 32)) {
    pitch_ = up(margin_ + pixels + margin + 64, 64) + 32;  // the padding avoids cache set conflicts between the rows of a tile
    memory_ = words(d, up(planes, 32) * pitch_);
    std::memset(memory_.raw_mutable(), 0, memory_.bytes());
  }
  std::uint16_t* plane(i64 v) { return at(memory_) + v * pitch_ + margin_; }
  i64 pitch() const { return pitch_; }

  // Interleaves planes in pairs: [rows][pitch][2]. `rows` may exceed the number of pairs; missing
  // planes are zero.
  void pairs(const amx_kernels& k, i64 rows, tensor& t) {
    for (i64 r = 0; r < rows; ++r) {
      auto* to = at(t) + r * 2 * pitch_;
      if (2 * r >= planes_)
        std::memset(to, 0, static_cast<std::size_t>(4 * pitch_));
      else
        k.interleave(pitch_, at(memory_) + 2 * r * pitch_, 2 * r + 1 < planes_ ? at(memory_) + (2 * r + 1) * pitch_ : nullptr, to);
    }
  }
  i64 margin() const { return margin_; }

 private:
  i64 planes_, margin_, pitch_ = 0;
  tensor memory_;
};

class convolver {
 public:
  convolver(device& d, const amx_kernels& k, const conv_geometry& g, conv_pass pass)
      : d_(d), k_(k), g_(g), s_(grid_of(g, pass != conv_pass::backward_data)) {
    using enum conv_pass;
    const i64 planes = pass == forward ? s_.channels : pass == backward_data ? g.group_outputs() : s_.channels + g.group_outputs();
    const i64 most = pass == backward_weights ? block_bytes_of_weights : block_bytes;
    images_ = std::clamp<i64>(most / std::max<i64>(2 * s_.pixels() * planes, 1), 1, std::max<i64>(g.batch, 1));
  }

  void forward(const tensor& x_in, const tensor& w, const tensor& bias, tensor& y) {
    const tensor x = converted_to(d_, x_in, dtype::bf16);
    const auto* from = static_cast<const std::uint16_t*>(x.raw());
    const float* b = bias ? bias.data<float>() : nullptr;
    set_sums(s_.channels);
    staged planes(d_, s_.channels, images_ * s_.pixels(), s_.max_shift());
    tensor pairs = pairs_of(planes);
    for (i64 group = 0; group < g_.groups; ++group) {
      const tensor packed = pack_forward(w.data<float>() + group * g_.group_outputs() * g_.patch());
      for (i64 n = 0; n < g_.batch; n += images_) {
        const i64 images = std::min(images_, g_.batch - n);
        put_input(from, n, images, group, planes);
        planes.pairs(k_, chunks_ * sum_ / 2, pairs);
        each_block(packed, pairs, planes, g_.group_outputs(), images, +1, [&](i64 o, i64 image, const float* sums) {
          const i64 feature = group * g_.group_outputs() + o;
          finish(g_.out_h(), g_.out_w(), sums, s_.width, b ? b[feature] : 0.0f, y,
                 ((n + image) * g_.outputs + feature) * g_.pixels(), g_.out_w());
        });
      }
    }
  }

  void backward_data(const tensor& dy_in, const tensor& w, tensor& dx) {
    const tensor dy = converted_to(d_, dy_in, dtype::bf16);
    const auto* from = static_cast<const std::uint16_t*>(dy.raw());
    set_sums(g_.group_outputs());
    staged planes(d_, g_.group_outputs(), images_ * s_.pixels(), s_.max_shift());
    tensor pairs = pairs_of(planes);
    const bool plain = s_.channels == g_.group_channels() && g_.unit_stride();  // each channel is a plane of dx
    tensor image = tensor::allocate(d_, shape{plain ? 1 : images_ * g_.group_channels() * g_.height * g_.width}, dtype::f32);
    for (i64 group = 0; group < g_.groups; ++group) {
      const tensor packed = pack_backward(w.data<float>() + group * g_.group_outputs() * g_.patch());
      for (i64 n = 0; n < g_.batch; n += images_) {
        const i64 images = std::min(images_, g_.batch - n);
        put_gradient(from, n, images, group, planes);
        planes.pairs(k_, chunks_ * sum_ / 2, pairs);
        const i64 plane = g_.height * g_.width, first = group * g_.group_channels();
        if (plain) {
          each_block(packed, pairs, planes, s_.channels, images, -1,
                     [&](i64 v, i64 i, const float* sums) { take_plane(sums, dx, ((n + i) * g_.channels + first + v) * plane); });
          continue;
        }
        std::memset(image.raw_mutable(), 0, image.bytes());
        each_block(packed, pairs, planes, s_.channels, images, -1, [&](i64 v, i64 i, const float* sums) {
          take_channel(v, sums, image.mutable_data<float>() + (i * g_.group_channels() + v / offsets()) * plane);
        });
        for (i64 i = 0; i < images; ++i)
          finish(1, g_.group_channels() * plane, image.data<float>() + i * g_.group_channels() * plane, 0, 0.0f, dx,
                 ((n + i) * g_.channels + first) * plane, 0);
      }
    }
  }

  void backward_weights(const tensor& x_in, const tensor& dy_in, tensor& dw, bool add) {
    const tensor x = converted_to(d_, x_in, dtype::bf16), dy = converted_to(d_, dy_in, dtype::bf16);
    const i64 outputs = up(g_.group_outputs(), 16), channels = up(s_.channels, 16);
    const i64 most = images_ * s_.pixels();
    staged in(d_, s_.channels, most, s_.max_shift()), out(d_, g_.group_outputs(), most, 0);
    tensor right = words(d_, outputs / 16 * up(most, tile_sum) * 16);
    tensor sums = tensor::allocate(d_, shape{s_.taps() * channels * outputs}, dtype::f32);
    for (i64 group = 0; group < g_.groups; ++group) {
      for (i64 n = 0; n < g_.batch; n += images_) {
        const i64 images = std::min(images_, g_.batch - n), pixels = images * s_.pixels(), steps = up(pixels, tile_sum) / tile_sum;
        put_input(static_cast<const std::uint16_t*>(x.raw()), n, images, group, in);
        put_gradient(static_cast<const std::uint16_t*>(dy.raw()), n, images, group, out);
        for (i64 o = 0; o < outputs; o += 16)
          k_.pack_right({out.plane(o), out.pitch(), false, true}, pixels, std::min<i64>(16, g_.group_outputs() - o),
                        static_cast<std::byte*>(right.raw_mutable()) + o / 16 * steps * tile_bytes);
        sum_weights(in, right, steps, outputs, channels, n > 0, sums.mutable_data<float>());
      }
      take_weights(sums.data<float>(), outputs, channels, dw.mutable_data<float>() + group * g_.group_outputs() * g_.patch(), add,
                   g_.batch == 0);
    }
  }

 private:
  i64 offsets() const { return s_.channels / std::max<i64>(1, g_.group_channels()); }

  // Splits the sum over `n` channels or outputs into equal, even chunks of at most one tile.
  void set_sums(i64 n) {
    chunks_ = std::max<i64>(1, up(n, tile_sum) / tile_sum);
    sum_ = std::max<i64>(2, up((n + chunks_ - 1) / chunks_, 2));
  }

  // The plane of channel v in the group, and its offsets.
  struct channel {
    i64 plane;
    std::size_t row, column;
  };
  channel channel_of(i64 v) const {
    const auto columns = static_cast<i64>(s_.columns.offsets.size());
    return {v / offsets(), static_cast<std::size_t>(v % offsets() / columns), static_cast<std::size_t>(v % columns)};
  }
  // Index of kernel element (v, tap) in the weights of an output; -1 if there is none.
  i64 weight_of(i64 v, i64 tap) const {
    const auto c = channel_of(v);
    const auto n = static_cast<i64>(s_.columns.taps.size());
    const i64 i = s_.rows.element(c.row, static_cast<std::size_t>(tap / n)),
              j = s_.columns.element(c.column, static_cast<std::size_t>(tap % n));
    return i < 0 || j < 0 ? -1 : (c.plane * g_.kernel_h + i) * g_.kernel_w + j;
  }

  // The range [first, last) of an axis of the grid that is inside the image, for a channel that
  // starts at pixel `begin`.
  struct places {
    i64 first, last;
  };
  static places inside(i64 begin, i64 stride, i64 extent, i64 all) {
    const i64 first = begin >= 0 ? 0 : (-begin + stride - 1) / stride;
    return {first, begin >= extent ? first : std::min(all, (extent - 1 - begin) / stride + 1)};
  }

  void put_input(const std::uint16_t* x, i64 n, i64 images, i64 group, staged& planes) const {
    for (i64 v = 0; v < s_.channels; ++v) {
      const auto c = channel_of(v);
      const i64 row = s_.rows.offsets[c.row] - g_.pad_h, column = s_.columns.offsets[c.column] - g_.pad_w;
      const auto [first, last] = inside(column, g_.stride_w, g_.width, s_.width);
      const auto [top, bottom] = inside(row, g_.stride_h, g_.height, s_.height);
      if (first >= last) continue;
      for (i64 i = 0; i < images; ++i) {
        const auto* plane = x + ((n + i) * g_.channels + group * g_.group_channels() + c.plane) * g_.height * g_.width;
        if (g_.stride_w == 1) {
          if (top < bottom)
            k_.copy_rows(bottom - top, last - first, plane + (row + top * g_.stride_h) * g_.width + column + first,
                         g_.stride_h * g_.width, planes.plane(v) + i * s_.pixels() + top * s_.width + first, s_.width);
          continue;
        }
        for (i64 r = top; r < bottom; ++r) {
          const auto* from = plane + (row + r * g_.stride_h) * g_.width + column + first * g_.stride_w;
          auto* to = planes.plane(v) + i * s_.pixels() + r * s_.width + first;
          for (i64 p = 0; p < last - first; ++p) to[p] = from[p * g_.stride_w];
        }
      }
    }
  }

  void put_gradient(const std::uint16_t* dy, i64 n, i64 images, i64 group, staged& planes) const {
    for (i64 o = 0; o < g_.group_outputs(); ++o)
      for (i64 i = 0; i < images; ++i) {
        const auto* from = dy + ((n + i) * g_.outputs + group * g_.group_outputs() + o) * g_.pixels();
        k_.copy_rows(g_.out_h(), g_.out_w(), from, g_.out_w(), planes.plane(o) + i * s_.pixels(), s_.width);
      }
  }

  // Writes the sums of a channel that is a plane of dx, cropped to the image. Elements of dx beyond
  // the grid are zero, since no output reads them.
  void take_plane(const float* sums, tensor& dx, i64 element) const {
    const i64 left = std::min(g_.pad_w, s_.width), top = std::min(g_.pad_h, s_.height);
    const i64 wide = std::min(g_.width, s_.width - left), high = std::min(g_.height, s_.height - top);
    if (wide < g_.width || high < g_.height) {
      const auto size = static_cast<i64>(size_of(dx.type()));
      std::memset(static_cast<std::byte*>(dx.raw_mutable()) + element * size, 0,
                  static_cast<std::size_t>(g_.height * g_.width * size));
    }
    finish(high, wide, sums + top * s_.width + left, s_.width, 0.0f, dx, element, g_.width);
  }

  // Adds the sums of channel v to its plane of dx.
  void take_channel(i64 v, const float* sums, float* to) const {
    const auto c = channel_of(v);
    const i64 row = s_.rows.offsets[c.row] - g_.pad_h, column = s_.columns.offsets[c.column] - g_.pad_w;
    const auto [first, last] = inside(column, g_.stride_w, g_.width, s_.width);
    const auto [top, bottom] = inside(row, g_.stride_h, g_.height, s_.height);
    for (i64 r = top; r < bottom; ++r) {
      float* line = to + (row + r * g_.stride_h) * g_.width + column;
      for (i64 p = first; p < last; ++p) line[p * g_.stride_w] += sums[r * s_.width + p];
    }
  }

  // Packs left tiles, [blocks of 16][taps][chunks]. fill(first row, rows, tap, to) writes the rows
  // of one block, with row stride chunks_ sum_.
  template <class F>
  tensor pack(i64 rows, F fill) const {
    const i64 blocks = up(rows, 16) / 16, steps = s_.taps() * chunks_, ld = chunks_ * sum_;
    tensor plain = tensor::allocate(d_, shape{16 * ld}, dtype::f32), packed = words(d_, up(blocks, 2) * steps * tile_elements);
    float* p = plain.mutable_data<float>();
    for (i64 b = 0; b < blocks; ++b)
      for (i64 t = 0; t < s_.taps(); ++t) {
        std::fill_n(p, 16 * ld, 0.0f);
        fill(b * 16, std::min<i64>(16, rows - b * 16), t, p);
        for (i64 c = 0; c < chunks_; ++c)
          k_.pack_left({p + c * sum_, ld, true, false}, 16, sum_,
                       static_cast<std::byte*>(packed.raw_mutable()) + ((b * s_.taps() + t) * chunks_ + c) * tile_bytes);
      }
    return packed;
  }
  tensor pack_forward(const float* w) const {
    std::vector<i64> e(static_cast<std::size_t>(s_.channels));
    i64 of_tap = -1, step = 0;  // e belongs to of_tap; e[v] = e[0] + v step, or step = 0 if there is no such step
    return pack(g_.group_outputs(), [&](i64 first, i64 rows, i64 t, float* p) {
      if (of_tap != t) of_tap = t, step = elements_of(t, e);
      for (i64 r = 0; r < rows; ++r) {
        const float* from = w + (first + r) * g_.patch();
        float* to = p + r * chunks_ * sum_;
        if (step > 0)
          for (i64 v = 0; v < s_.channels; ++v) to[v] = from[e[0] + v * step];
        else
          for (i64 v = 0; v < s_.channels; ++v)
            to[v] = e[static_cast<std::size_t>(v)] < 0 ? 0.0f : from[e[static_cast<std::size_t>(v)]];
      }
    });
  }
  tensor pack_backward(const float* w) const {
    return pack(s_.channels, [&](i64 first, i64 rows, i64 t, float* p) {
      for (i64 r = 0; r < rows; ++r)
        if (const i64 e = weight_of(first + r, t); e >= 0)
          for (i64 o = 0; o < g_.group_outputs(); ++o) p[r * chunks_ * sum_ + o] = w[o * g_.patch() + e];
    });
  }
  // Indices of a tap's weights, one per channel. Returns their common distance, 0 if there is none.
  i64 elements_of(i64 tap, std::vector<i64>& e) const {
    bool even = true;
    for (std::size_t v = 0; v < e.size(); ++v) {
      e[v] = weight_of(static_cast<i64>(v), tap);
      even = even && e[v] >= 0 && (v < 2 || e[v] - e[v - 1] == e[1] - e[0]);
    }
    return even ? (e.size() > 1 ? e[1] - e[0] : 1) : 0;
  }

  // Calls take(row, image, sums of its grid) for each row of the left factor and each image.
  template <class F>
  void each_block(const tensor& packed, const tensor& pairs, const staged& planes, i64 rows, i64 images, i64 sign, F take) {
    const i64 steps = s_.taps() * chunks_, pixels = images * s_.pixels(), ld = up(pixels, 32);
    std::vector<i64> offset(static_cast<std::size_t>(steps));
    for (i64 t = 0; t < s_.taps(); ++t)
      for (i64 c = 0; c < chunks_; ++c)
        offset[static_cast<std::size_t>(t * chunks_ + c)] = 4 * (c * sum_ / 2 * planes.pitch() + sign * s_.shift(t));
    tensor sums = tensor::allocate(d_, shape{32 * ld}, dtype::f32);
    float* to = sums.mutable_data<float>();
    for (i64 r = 0; r < rows; r += 32) {
      const i64 high = std::min<i64>(32, rows - r);
      const tile_walk a{static_cast<const std::byte*>(packed.raw()) + r / 16 * steps * tile_bytes, 64, steps * tile_bytes,
                        tile_bytes, nullptr};
      k_.begin(static_cast<int>(sum_));
      for (i64 p = 0; p < pixels; p += 32) {
        const tile_walk b{static_cast<const std::byte*>(pairs.raw()) + 4 * (planes.margin() + p), 4 * planes.pitch(), 64, 0,
                          offset.data()};
        k_.product(high > 16 ? 2 : 1, pixels - p > 16 ? 2 : 1, static_cast<int>(steps), a, b, to + p, ld, false);
      }
      k_.end();
      for (i64 i = 0; i < high; ++i)
        for (i64 n = 0; n < images; ++n) take(r + i, n, to + i * ld + n * s_.pixels());
    }
  }

  void sum_weights(staged& in, const tensor& right, i64 steps, i64 outputs, i64 channels, bool add, float* sums) {
    k_.begin(tile_sum);
    for (i64 v = 0; v < channels; v += 32)
      for (i64 t = 0; t < s_.taps(); ++t) {
        const tile_walk a{in.plane(v) + s_.shift(t), 2 * in.pitch(), 32 * in.pitch(), 2 * tile_sum, nullptr};
        for (i64 o = 0; o < outputs; o += 32) {
          const tile_walk b{static_cast<const std::byte*>(right.raw()) + o / 16 * steps * tile_bytes, 64, steps * tile_bytes,
                            tile_bytes, nullptr};
          k_.product(channels - v > 16 ? 2 : 1, outputs - o > 16 ? 2 : 1, static_cast<int>(steps), a, b,
                     sums + (t * channels + v) * outputs + o, outputs, add);
        }
      }
    k_.end();
  }

  void take_weights(const float* sums, i64 outputs, i64 channels, float* dw, bool add, bool none) const {
    if (!add) std::fill_n(dw, g_.group_outputs() * g_.patch(), 0.0f);
    if (none) return;
    for (i64 first = 0; first < g_.group_outputs(); first += 16) {  // this number of rows of dw stays in the L1 cache
      const i64 rows = std::min<i64>(16, g_.group_outputs() - first);
      for (i64 v = 0; v < s_.channels; ++v)
        for (i64 t = 0; t < s_.taps(); ++t) {
          const i64 e = weight_of(v, t);
          if (e < 0) continue;
          const float* from = sums + (t * channels + v) * outputs + first;
          for (i64 o = 0; o < rows; ++o) dw[(first + o) * g_.patch() + e] += from[o];
        }
    }
  }

  void finish(i64 rows, i64 n, const float* from, i64 stride, float bias, tensor& to, i64 element, i64 to_stride) const {
    const bool f32 = to.type() == dtype::f32;
    k_.finish_rows(rows, n, from, stride, bias, f32, static_cast<std::byte*>(to.raw_mutable()) + element * (f32 ? 4 : 2),
                   to_stride);
  }

  tensor pairs_of(const staged& planes) const { return words(d_, chunks_ * sum_ * planes.pitch()); }

  device& d_;
  const amx_kernels& k_;
  const conv_geometry& g_;
  grid s_;
  i64 images_ = 1, chunks_ = 1, sum_ = tile_sum;
};

}  // namespace

void amx_conv_forward(device& d, const amx_kernels& k, const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias,
                      tensor& y) {
  convolver(d, k, g, conv_pass::forward).forward(x, w, bias, y);
}
void amx_conv_backward_data(device& d, const amx_kernels& k, const conv_geometry& g, const tensor& dy, const tensor& w,
                            tensor& dx) {
  convolver(d, k, g, conv_pass::backward_data).backward_data(dy, w, dx);
}
void amx_conv_backward_weights(device& d, const amx_kernels& k, const conv_geometry& g, const tensor& x, const tensor& dy,
                               tensor& dw, bool add) {
  convolver(d, k, g, conv_pass::backward_weights).backward_weights(x, dy, dw, add);
}

}  // namespace troupe::cpu
