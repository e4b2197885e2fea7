// The algorithm bf16x3: f32 on the bf16 matrix unit (bf16x3.hpp). There is no im2col: a tile is 16
// pairs of channels times 16 neighbouring places, and the kernel's taps are shifted tiles.
//   forward            for every tap and 16 channels, three tiles of weights are multiplied with
//                      two of places; 16 outputs x 4 x 16 pixels at a time
//   backward, data     the same with outputs and channels exchanged and the taps reversed. With
//                      strides, the pixels at each phase of the stride are a convolution of dy with
//                      some of the taps
//   backward, weights  conv_bf16x3_weights.cpp
// For each row of the image and 16 channels, the stage has one copy per column of taps, shifted so
// that every tile is aligned to 64 bytes. If rows are short, those of `mixed` images are
// interleaved place by place; these images are a set.
#include "ops/cpu/conv_bf16x3.hpp"

#include <algorithm>
#include <optional>

#include "ops/cpu/amx.hpp"
#include "ops/cpu/conv.hpp"

namespace troupe::cpu {

namespace {

using T = float;
// near: elements of weights that fit in the L1 cache in addition to the other data.
constexpr i64 tile = 16, tile_weights = 3 * tile * 2 * tile, near = 16384;

// Taps that contribute to some outputs: y[oy][ox] += w[tap[i][j]] x[oy stride + row[i]][ox stride +
// column[j]].
struct tap_grid {
  scratch<i64> row, column, tap;
  i64 rows = 0, columns = 0;
  tap_grid(device& d, const conv_geometry& g) : row(d, g.kernel_h), column(d, g.kernel_w), tap(d, g.kernel_h * g.kernel_w) {}
};

// A convolution of one group, as sums over taps.
// size: the sizes and strides of one convolution
struct sum_over_taps {
  const T* x;
  i64 batch, x_image, channels, height, width, stride_h, stride_w;
  const T* w;
  i64 outputs, output_step, channel_step;
  const i64 *row, *column, *tap;
  i64 rows, columns;
  const T* bias;
  T* y;  // [image][output][row][column], with the distances below
  i64 out_h, out_w, y_image, y_plane, y_row, y_step;
  i64 tap_count() const { return rows * columns; }
};

// size: the geometry of one convolution and its memory are set up once, and every pass reads most
// of them
class correlation {
 public:
  correlation(device& d, const bf16x3_kernels& k, const sum_over_taps& s)
      : k_(k),
        s_(s),
        moves_(s.stride_w == 1 && s.columns >= 2 && s.columns <= 5 &&
               ceil_div(s.channels, tile) * s.tap_count() * tile_weights <= near),
        mixed_(mixed_images(moves_ ? std::max(s.out_w, s.width) : s.out_w)),
        chunks_(ceil_div(s.channels, tile)),
        features_(ceil_div(s.outputs, tile)),
        shift_(d, s.columns),
        offset_(d, chunks_ * s.tap_count()),
        weights_(d, features_ * chunks_ * s.tap_count() * tile_weights) {
    measure();
    const i64 set = std::max<i64>(1, rows_ * row()), heavy = i64{1} << 19, room = i64{1} << 18;  // bytes of weights, units
    const bool again = features_ * chunks_ * s.tap_count() * tile_weights * 2 > heavy;  // weights leave the cache between sets
    sets_ = ceil_div(s.batch, mixed_);
    at_once_ = std::clamp<i64>(again ? room / set : 1, 1, sets_);
    stage_.emplace(d, at_once_ * set);
    buffer_.emplace(d, moves_ ? 1 : 3 * 8 * count_);
    from_.emplace(d, count_);
    sums_.emplace(d, moves_ ? s.columns * apart() + border_ + tile : 4 * tile * tile);
    for (i64 i = 0; i < at_once_; ++i)
      for (i64 r = 0; r < rows_; ++r)
        if (r < above_ || r >= above_ + s.height) zero(stage_->data + i * set + r * row(), row());
    if (moves_)
      zero(sums_->data, s.columns * apart() + border_ + tile);
    else
      zero(buffer_->data, 3 * 8 * count_);
  }

  void run() {
    pack();
    for (i64 first = 0; first < sets_; first += at_once_) {
      const i64 sets = std::min(at_once_, sets_ - first);
      for (i64 i = 0; i < sets; ++i) fill(first + i, stage_->data + i * rows_ * row());
      for (i64 f = 0; f < features_; ++f)
        for (i64 i = 0; i < sets; ++i) {
          const bf16_pair* stage = stage_->data + i * rows_ * row();
          moves_ ? multiply_moved(first + i, f, stage) : multiply(first + i, f, stage);
        }
    }
  }

 private:
  i64 copies() const { return moves_ ? 1 : s_.columns; }
  i64 places() const { return across_ * tile; }
  i64 chunk() const { return copies() * 3 * 8 * places(); }  // units of a row of the stage, for 16 channels
  i64 row() const { return chunks_ * chunk(); }
  i64 sum_row() const { return border_ + places(); }
  i64 apart() const { return tile * sum_row(); }

  // Computes the borders of the image and the layout of the stage.
  void measure() {
    i64 low = 0, last = 0, left = 0, right = 0;
    for (i64 t = 0; t < s_.rows; ++t) low = std::min(low, s_.row[t]), last = std::max(last, s_.row[t]);
    for (i64 c = 0; c < s_.columns; ++c) left = std::min(left, s_.column[c]), right = std::max(right, s_.column[c]);
    above_ = -low;
    rows_ = (s_.out_h - 1) * s_.stride_h + last + above_ + 1;
    across_ = ceil_div((moves_ ? s_.width : s_.out_w) * mixed_, tile);
    if (moves_) {
      left_ = 0, phase_ = places(), count_ = places();
      // Results outside the image are zero. The border between two rows serves both, and there is
      // one before the first place of an output.
      border_ = ceil_div(std::max(-left, std::max<i64>(0, s_.out_w + right - s_.width)) * mixed_ + tile, tile) * tile;
      for (i64 c = 0; c < s_.columns; ++c) shift_.data[c] = border_ + s_.column[c] * mixed_;
    } else {
      left_ = -left;
      phase_ = std::max((right + left_) / s_.stride_w + ceil_div(places(), mixed_), ceil_div(left_ + s_.width, s_.stride_w));
      for (i64 c = 0; c < s_.columns; ++c) {
        const i64 at = s_.column[c] + left_;
        shift_.data[c] = (at % s_.stride_w * phase_ + at / s_.stride_w) * mixed_;
      }
      count_ = ceil_div(std::max(phase_ * s_.stride_w * mixed_ + places(), left_ + ceil_div(s_.width, tile) * tile), tile) * tile;
    }
    gathers_ = mixed_ > 1 || s_.stride_w > 1;
    i64* to = offset_.data;
    for (i64 c = 0; c < chunks_; ++c)
      for (i64 i = 0; i < s_.rows; ++i)
        for (i64 j = 0; j < copies(); ++j) *to++ = (s_.row[i] + above_) * row() + c * chunk() + j * 3 * 8 * places();
  }

  void pack() {
    std::uint16_t* to = weights_.data;
    for (i64 f = 0; f < features_; ++f)
      for (i64 c = 0; c < chunks_; ++c)
        for (i64 t = 0; t < s_.tap_count(); ++t, to += tile_weights)
          k_.weights(
              static_cast<int>(std::min(tile, s_.outputs - f * tile)), static_cast<int>(std::min(tile, s_.channels - c * tile)),
              s_.w + f * tile * s_.output_step + c * tile * s_.channel_step + s_.tap[t], s_.output_step, s_.channel_step, to);
  }

  // Number of existing images of a set.
  i64 images(i64 set) const { return std::min(mixed_, s_.batch - set * mixed_); }

  void fill(i64 set, bf16_pair* stage) {
    if (gathers_ && images(set) != gathered_) {
      gathered_ = images(set);
      interleave(gathered_, mixed_, s_.stride_w, phase_, left_, s_.width, s_.x_image, count_, from_->data);
    }
    const bf16x3_row row_of{count_, s_.width, left_, gathers_ ? from_->data : nullptr};
    const i64 plane = s_.height * s_.width;
    const T* x = s_.x + set * mixed_ * s_.x_image;
    for (i64 r = 0; r < rows_; ++r) {
      const i64 y = r - above_;
      if (y < 0 || y >= s_.height) continue;
      for (i64 c = 0; c < chunks_; ++c) {
        bf16_pair* to = stage + r * row() + c * chunk();
        k_.pairs(row_of, static_cast<int>(std::min(tile, s_.channels - c * tile)), x + c * tile * plane + y * s_.width, plane,
                 moves_ ? to : buffer_->data);
        if (!moves_) k_.shifts(static_cast<int>(copies()), shift_.data, 3 * 8, count_, places(), buffer_->data, to);
      }
    }
  }

  bf16x3_sum sum_of(i64 f) const {
    return {chunks_ * s_.rows * copies(), offset_.data, weights_.data + f * chunks_ * s_.tap_count() * tile_weights, places()};
  }
  T* first_of(i64 set, i64 f) const { return s_.y + set * mixed_ * s_.y_image + f * tile * s_.y_plane; }
  const T* bias_of(i64 f) const { return s_.bias == nullptr ? nullptr : s_.bias + f * tile; }

  void multiply(i64 set, i64 f, const bf16_pair* stage) {
    const bf16x3_sum sum = sum_of(f);
    const i64 outputs = std::min(tile, s_.outputs - f * tile), all = s_.out_h * across_;
    const T* bias = bias_of(f);
    const bool straight = mixed_ == 1 && s_.y_step == 1 && bias == nullptr && outputs == tile;
    T* y = first_of(set, f);
    for (i64 first = 0; first < all; first += 4) {
      const int n = static_cast<int>(std::min<i64>(4, all - first));
      const bf16_pair* at[4];
      T* to[4];
      i64 to_row[4];
      for (int t = 0; t < n; ++t) {
        const i64 oy = (first + t) / across_, ox = (first + t) % across_ * tile;
        at[t] = stage + oy * s_.stride_h * row() + ox;
        const bool whole = straight && ox + tile <= s_.out_w;
        to[t] = whole ? y + oy * s_.y_row + ox : sums_->data + t * tile * tile;
        to_row[t] = whole ? s_.y_plane : tile;
      }
      k_.tiles(n, sum, at, to, to_row);
      for (int t = 0; t < n; ++t)
        if (to_row[t] == tile) put((first + t) / across_, (first + t) % across_ * tile, images(set), outputs, to[t], bias, y);
    }
  }

  void multiply_moved(i64 set, i64 f, const bf16_pair* stage) {
    const bf16x3_sum sum = sum_of(f);
    const i64 outputs = std::min(tile, s_.outputs - f * tile);
    const int columns = static_cast<int>(s_.columns), rows = static_cast<int>(outputs);
    T* y = first_of(set, f);
    for (i64 oy = 0; oy < s_.out_h; ++oy) {
      for (i64 t = 0; t < across_; ++t)
        k_.moved(columns, sum, stage + oy * s_.stride_h * row() + t * tile, sums_->data + border_ + t * tile, apart(), sum_row());
      if (mixed_ == 1 && s_.y_step == 1) {
        k_.add_moved(columns, shift_.data, rows, s_.out_w, sums_->data, apart(), sum_row(), bias_of(f), y + oy * s_.y_row,
                     s_.y_plane);
        continue;
      }
      for (i64 ox = 0; ox < s_.out_w * mixed_; ox += tile) {
        alignas(64) T tidy[tile * tile];
        k_.add_moved(columns, shift_.data, rows, tile, sums_->data + ox, apart(), sum_row(), bias_of(f), tidy, tile);
        put(oy, ox, images(set), outputs, tidy, nullptr, y);
      }
    }
  }

  // Writes a tile's places to their images.
  void put(i64 oy, i64 ox, i64 images, i64 outputs, const T* sums, const T* bias, T* y) const {
    for (i64 i = 0; i < images; ++i) {
      std::int32_t pick[tile];
      for (i64 p = 0; p < tile; ++p) pick[p] = static_cast<std::int32_t>((p * mixed_ + i) % tile);
      k_.put(static_cast<int>(outputs), sums, pick, std::min(s_.out_w - ox, tile), bias,
             y + i * s_.y_image + oy * s_.y_row + ox * s_.y_step, s_.y_plane, s_.y_step);
    }
  }

  const bf16x3_kernels& k_;
  const sum_over_taps& s_;
  bool moves_, gathers_ = false;
  i64 mixed_, chunks_, features_, across_ = 0, above_ = 0, left_ = 0, rows_ = 0, phase_ = 0, count_ = 0, border_ = 0, sets_ = 0,
                                  at_once_ = 0, gathered_ = 0;
  scratch<i64> shift_, offset_;
  scratch<std::uint16_t> weights_;
  std::optional<scratch<bf16_pair>> stage_, buffer_;
  std::optional<scratch<std::int32_t>> from_;
  std::optional<scratch<T>> sums_;
};

void forward(device& d, const kernels<T>&, const conv_geometry& g, const T* x, const T* w, const T* bias, T* y) {
  const bf16x3_kernels& k = *bf16x3_here();
  const tiles_in_use guard(k);
  const i64 channels = g.group_channels(), outputs = g.group_outputs(), plane = g.height * g.width,
            kernel = g.kernel_h * g.kernel_w;
  tap_grid taps(d, g);
  taps.rows = g.kernel_h, taps.columns = g.kernel_w;
  for (i64 i = 0; i < g.kernel_h; ++i) taps.row.data[i] = i * g.dilation_h - g.pad_h;
  for (i64 j = 0; j < g.kernel_w; ++j) taps.column.data[j] = j * g.dilation_w - g.pad_w;
  for (i64 t = 0; t < kernel; ++t) taps.tap.data[t] = t;
  for (i64 group = 0; group < g.groups; ++group) {
    const sum_over_taps s{.x = x + group * channels * plane,
                          .batch = g.batch,
                          .x_image = g.channels * plane,
                          .channels = channels,
                          .height = g.height,
                          .width = g.width,
                          .stride_h = g.stride_h,
                          .stride_w = g.stride_w,
                          .w = w + group * outputs * g.patch(),
                          .outputs = outputs,
                          .output_step = g.patch(),
                          .channel_step = kernel,
                          .row = taps.row.data,
                          .column = taps.column.data,
                          .tap = taps.tap.data,
                          .rows = taps.rows,
                          .columns = taps.columns,
                          .bias = bias == nullptr ? nullptr : bias + group * outputs,
                          .y = y + group * outputs * g.pixels(),
                          .out_h = g.out_h(),
                          .out_w = g.out_w(),
                          .y_image = g.outputs * g.pixels(),
                          .y_plane = g.pixels(),
                          .y_row = g.out_w(),
                          .y_step = 1};
    correlation(d, k, s).run();
  }
}

// Finds the taps that reach the pixels (a stride_h + y, b stride_w + x) of the image, in terms of a
// and b.
void find_taps(const conv_geometry& g, i64 y, i64 x, tap_grid& to) {
  to.rows = to.columns = 0;
  for (i64 j = 0; j < g.kernel_w; ++j)
    if (const i64 right = x + g.pad_w - j * g.dilation_w; right % g.stride_w == 0)
      to.column.data[to.columns++] = right / g.stride_w;
  i64* tap = to.tap.data;
  for (i64 i = 0; i < g.kernel_h; ++i) {
    const i64 down = y + g.pad_h - i * g.dilation_h;
    if (down % g.stride_h != 0) continue;
    to.row.data[to.rows++] = down / g.stride_h;
    for (i64 j = 0; j < g.kernel_w; ++j)
      if ((x + g.pad_w - j * g.dilation_w) % g.stride_w == 0) *tap++ = i * g.kernel_w + j;
  }
}

void backward_data(device& d, const kernels<T>&, const conv_geometry& g, const T* dy, const T* w, T* dx) {
  const bf16x3_kernels& k = *bf16x3_here();
  const tiles_in_use guard(k);
  const i64 channels = g.group_channels(), outputs = g.group_outputs(), plane = g.height * g.width,
            kernel = g.kernel_h * g.kernel_w;
  tap_grid taps(d, g);
  for (i64 y = 0; y < std::min(g.stride_h, g.height); ++y)
    for (i64 x = 0; x < std::min(g.stride_w, g.width); ++x) {
      find_taps(g, y, x, taps);
      const i64 down = ceil_div(g.height - y, g.stride_h), right = ceil_div(g.width - x, g.stride_w);
      for (i64 group = 0; group < g.groups; ++group) {
        const sum_over_taps s{.x = dy + group * outputs * g.pixels(),
                              .batch = g.batch,
                              .x_image = g.outputs * g.pixels(),
                              .channels = outputs,
                              .height = g.out_h(),
                              .width = g.out_w(),
                              .stride_h = 1,
                              .stride_w = 1,
                              .w = w + group * outputs * g.patch(),
                              .outputs = channels,
                              .output_step = kernel,
                              .channel_step = g.patch(),
                              .row = taps.row.data,
                              .column = taps.column.data,
                              .tap = taps.tap.data,
                              .rows = taps.rows,
                              .columns = taps.columns,
                              .bias = nullptr,
                              .y = dx + group * channels * plane + y * g.width + x,
                              .out_h = down,
                              .out_w = right,
                              .y_image = g.channels * plane,
                              .y_plane = plane,
                              .y_row = g.stride_h * g.width,
                              .y_step = g.stride_w};
        correlation(d, k, s).run();
      }
    }
}

}  // namespace

const bf16x3_kernels* bf16x3_here() { return amx() ? bf16x3_compiled() : nullptr; }

conv_passes<float> conv_bf16x3() { return {forward, backward_data, bf16x3_weights}; }

}  // namespace troupe::cpu
