// The algorithm bf16x3, backward, weights (conv_bf16x3.cpp): dw[o][c][tap] = sum over places of
// dy[o][place] x[c][place shifted by the tap], as products of tiles [16 outputs][places] and
// [places][16 channels]. A unit holds one place of two images, so that the shift of every tap is a
// whole number of tile rows. A set is 2 x mixed images: if rows are short, `mixed` pairs are
// interleaved place by place. Sums of a few sets are computed in registers, then added.
#include <algorithm>

#include "ops/cpu/conv_bf16x3.hpp"

namespace troupe::cpu {

namespace {

using T = float;
constexpr i64 tile = 16;

// `pairs` pairs of images from `first` on: image p with image p + pairs; or a single image.
struct image_set {
  i64 first, pairs;
  bool alone;
};

// size: the geometry of one gradient and its memory are set up once, and every pass reads most of
// them
class weights_gradient {
 public:
  weights_gradient(device& d, const bf16x3_kernels& k, const conv_geometry& g)
      : k_(k),
        g_(g),
        kernel_(g.kernel_h * g.kernel_w),
        mixed_(mixed_images(g.out_w())),
        across_(ceil_div(g.out_w() * mixed_, tile)),
        chunks_(ceil_div(g.group_channels(), tile)),
        features_(ceil_div(g.group_outputs(), tile)),
        rows_((g.out_h() - 1) * g.stride_h + (g.kernel_h - 1) * g.dilation_h + 1),
        phase_(std::max((g.kernel_w - 1) * g.dilation_w / g.stride_w + ceil_div(across_ * tile, mixed_),
                        ceil_div(g.width + g.pad_w, g.stride_w))),
        places_(ceil_div(phase_ * g.stride_w * mixed_ + across_ * tile, tile) * tile),
        at_once_(std::clamp<i64>(steps_enough / (g.out_h() * across_), 1, sets())),
        x_(d, at_once_ * x_set() + tile),
        dy_(d, at_once_ * dy_set()),
        sums_(d, features_ * chunks_ * kernel_ * tile * tile),
        x_from_(d, places_),
        dy_from_(d, across_ * tile) {
    for (i64 i = 0; i < at_once_; ++i) surround(x_.data + i * x_set());
    zero(x_.data + at_once_ * x_set(), tile);
    if (g.group_outputs() % tile != 0 || (mixed_ == 1 && g.out_w() % tile != 0))
      zero(dy_.data, at_once_ * dy_set());  // otherwise all of it is written
  }

  void run(i64 group, const T* x, const T* dy) {
    zero(sums_.data, features_ * chunks_ * kernel_ * tile * tile);
    for (i64 first = 0; first < sets(); first += at_once_) {
      const i64 count = std::min(at_once_, sets() - first);
      for (i64 i = 0; i < count; ++i) {
        const image_set s = set(first + i);
        if (gathers_x() || mixed_ > 1) find_places(s);
        fill_x(s, x + group * g_.group_channels() * g_.height * g_.width, x_.data + i * x_set());
        fill_dy(s, dy + group * g_.group_outputs() * g_.pixels(), dy_.data + i * dy_set());
      }
      multiply(count);
    }
  }

  void give(i64 group, bool add, T* dw) const {
    const T* sum = sums_.data;
    for (i64 f = 0; f < features_; ++f)
      for (i64 c = 0; c < chunks_; ++c)
        for (i64 t = 0; t < kernel_; ++t, sum += tile * tile)
          for (i64 o = 0; o < std::min(tile, g_.group_outputs() - f * tile); ++o) {
            T* to = dw + (group * g_.group_outputs() + f * tile + o) * g_.patch() + c * tile * kernel_ + t;
            for (i64 i = 0; i < std::min(tile, g_.group_channels() - c * tile); ++i)
              to[i * kernel_] = add ? to[i * kernel_] + sum[o * tile + i] : sum[o * tile + i];
          }
  }

 private:
  static constexpr i64 steps_enough = 32;  // matrix unit steps that amortise the fixed cost of a sum

  i64 x_part() const { return places_ * tile; }
  i64 x_row() const { return chunks_ * 3 * x_part(); }
  i64 x_set() const { return rows_ * x_row(); }
  i64 dy_part() const { return tile * across_ * tile; }
  i64 dy_row() const { return features_ * 3 * dy_part(); }
  i64 dy_set() const { return g_.out_h() * dy_row(); }
  bool gathers_x() const { return mixed_ > 1 || g_.stride_w > 1; }

  // Zeros around the image. Gathered places have their own.
  void surround(bf16_pair* to) const {
    for (i64 r = 0; r < rows_; ++r, to += x_row()) {
      if (r < g_.pad_h || r >= g_.pad_h + g_.height) {
        zero(to, x_row());
        continue;
      }
      for (i64 p = 0; p < (gathers_x() ? 0 : 3 * chunks_); ++p) {
        zero(to + p * x_part(), g_.pad_w * tile);
        zero(to + p * x_part() + (g_.pad_w + g_.width) * tile, x_part() - (g_.pad_w + g_.width) * tile);
      }
    }
  }

  // Whole sets, then the remaining pairs, then a remaining image.
  i64 sets() const {
    const i64 left = g_.batch % (2 * mixed_);
    return g_.batch / (2 * mixed_) + (left > 1 ? 1 : 0) + left % 2;
  }
  image_set set(i64 s) const {
    const i64 whole = g_.batch / (2 * mixed_), pairs = g_.batch % (2 * mixed_) / 2;
    if (s < whole) return {s * 2 * mixed_, mixed_, false};
    if (s == whole && pairs > 0) return {s * 2 * mixed_, pairs, false};
    return {g_.batch - 1, 1, true};
  }
  void find_places(const image_set& s) {
    if (s.pairs == placed_) return;
    placed_ = s.pairs;
    interleave(s.pairs, mixed_, g_.stride_w, phase_, g_.pad_w, g_.width, g_.channels * g_.height * g_.width, places_, x_from_.data);
    interleave(s.pairs, mixed_, 1, across_ * tile, 0, g_.out_w(), g_.outputs * g_.pixels(), across_ * tile, dy_from_.data);
  }

  void fill_x(const image_set& s, const T* x, bf16_pair* to) const {
    const bf16x3_row row{places_, g_.width, g_.pad_w, gathers_x() ? x_from_.data : nullptr};
    const i64 plane = g_.height * g_.width, image = g_.channels * plane;
    for (i64 r = 0; r < rows_; ++r) {
      const i64 y = r - g_.pad_h;
      if (y < 0 || y >= g_.height) continue;
      for (i64 c = 0; c < chunks_; ++c) {
        const T* from = x + s.first * image + c * tile * plane + y * g_.width;
        k_.images_turned(row, static_cast<int>(std::min(tile, g_.group_channels() - c * tile)), from,
                         s.alone ? nullptr : from + s.pairs * image, plane, to + r * x_row() + c * 3 * x_part(), x_part());
      }
    }
  }
  void fill_dy(const image_set& s, const T* dy, bf16_pair* to) const {
    const bf16x3_row row{across_ * tile, g_.out_w(), 0, mixed_ > 1 ? dy_from_.data : nullptr};
    const i64 image = g_.outputs * g_.pixels();
    for (i64 y = 0; y < g_.out_h(); ++y)
      for (i64 f = 0; f < features_; ++f) {
        const T* from = dy + s.first * image + f * tile * g_.pixels() + y * g_.out_w();
        k_.images(row, static_cast<int>(std::min(tile, g_.group_outputs() - f * tile)), from,
                  s.alone ? nullptr : from + s.pairs * image, g_.pixels(), to + y * dy_row() + f * 3 * dy_part(), dy_part());
      }
  }

  void multiply(i64 sets) {
    const bf16x3_dot s{.sets = sets,
                       .rows = g_.out_h(),
                       .across = across_,
                       .dy_set = dy_set(),
                       .dy_row = dy_row(),
                       .dy_part = dy_part(),
                       .dy_stride = across_ * tile,
                       .x_set = x_set(),
                       .x_row = g_.stride_h * x_row(),
                       .x_part = x_part()};
    T* sum = sums_.data;
    for (i64 f = 0; f < features_; ++f)
      for (i64 c = 0; c < chunks_; ++c)
        for (i64 first = 0; first < kernel_; first += 3) {
          const int n = static_cast<int>(std::min<i64>(3, kernel_ - first));
          const bf16_pair* x[3];
          T* to[3];
          for (int t = 0; t < n; ++t, sum += tile * tile) {
            const i64 i = (first + t) / g_.kernel_w * g_.dilation_h, j = (first + t) % g_.kernel_w * g_.dilation_w;
            x[t] = x_.data + i * x_row() + c * 3 * x_part() + (j % g_.stride_w * phase_ + j / g_.stride_w) * mixed_ * tile;
            to[t] = sum;
          }
          k_.dot(n, s, dy_.data + f * 3 * dy_part(), x, to);
        }
  }

  const bf16x3_kernels& k_;
  const conv_geometry& g_;
  i64 kernel_, mixed_, across_, chunks_, features_, rows_, phase_, places_, at_once_, placed_ = 0;
  scratch<bf16_pair> x_, dy_;
  scratch<T> sums_;
  scratch<std::int32_t> x_from_, dy_from_;
};

}  // namespace

void bf16x3_weights(device& d, const kernels<T>&, const conv_geometry& g, const T* x, const T* dy, T* dw, bool add) {
  const bf16x3_kernels& k = *bf16x3_here();
  const tiles_in_use guard(k);
  weights_gradient w(d, k, g);
  for (i64 group = 0; group < g.groups; ++group) {
    w.run(group, x, dy);
    w.give(group, add, dw);
  }
}

}  // namespace troupe::cpu
