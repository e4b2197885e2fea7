// lowering2 and lowering3: the product comes first, with fewer or no copies of the image, followed
// by a sum of shifted slices (Hadjis et al. 2015, "Caffe con Troll", figure 3: the more is lifted,
// the less is lowered, and the larger the product).
//
// The taps of a kernel are (e, l): e is expanded before the product, l is lifted after it.
//   lowering2   e = j (the kernel's columns), l = i (its rows)   columns [b][y][ox], y an image row
//   lowering3   e is empty, l = (i, j)                           columns [b][y][x]
// With A[l, o][c, e] = w and X[c, e][columns] the expanded images of a block:
//   forward            R = A X,  y[b, o, oy, ox] = bias + sum over l of R[l, o][column], column the
//                      one that l shifts (oy, ox) to
//   backward, data     E = dy at the columns where R was read, zero elsewhere;  dX = A^T E, and dx
//                      gets its columns added where X was read
//   backward, weights  dA += E X^T
#include <array>

#include "ops/cpu/conv.hpp"
#include "ops/cpu/conv_stage.hpp"

namespace troupe::cpu {

namespace {

template <class T, bool Expand>
class lifting {
 public:
  lifting(device& d, const kernels<T>& k, const conv_geometry& g) : d_(d), k_(k), g_(g) {
    expanded_ = Expand ? g.kernel_w : 1;
    lifted_ = g.kernel_h * g.kernel_w / expanded_;
    width_ = Expand ? g.out_w() : g.width;
    image_ = g.height * width_;
    deep_ = g.group_channels() * expanded_;
    rows_ = lifted_ * g.group_outputs();
    constexpr i64 wanted = i64{1} << 21;  // elements of X and R together; they stay in the last-level cache
    images_ = std::clamp<i64>(wanted / std::max<i64>(1, image_ * (deep_ + rows_)), 1, g.batch);
    matrix_ = make(rows_ * deep_), columns_ = make(deep_ * images_ * image_), slices_ = make(rows_ * images_ * image_);
  }

  i64 blocks() const { return ceil_div(g_.batch, images_); }

  // Converts w to A, and the gradient of A to that of w.
  void arrange(const T* w, i64 group) {
    each_weight(group, [&](i64 at, i64 a) { at_of(matrix_)[a] = w[at]; });
  }
  void rearrange(T* dw, i64 group, bool add) {
    each_weight(group, [&](i64 at, i64 a) { dw[at] = add ? dw[at] + at_of(matrix_)[a] : at_of(matrix_)[a]; });
  }

  void forward(i64 block, i64 group, const T* x, const T* bias, T* y) {
    expand(block, group, x);
    product({.m = rows_, .n = count(block), .k = deep_}, matrix_, columns_, slices_);
    const T* from = at_of(slices_);
    for (i64 b = 0; b < images(block); ++b)
      for (i64 o = 0; o < g_.group_outputs(); ++o) {
        T* plane = y + output_plane(block, b, group, o);
        k_.fill(g_.pixels(), bias == nullptr ? T(0) : bias[group * g_.group_outputs() + o], plane);
        for (i64 l = 0; l < lifted_; ++l)
          each_shift(l, [&](i64 oy, i64 low, i64 high, i64 column, i64 step) {
            const T* row = from + ((l * g_.group_outputs() + o) * images(block) + b) * image_ + column;
            T* to = plane + oy * g_.out_w();
            if (step == 1) return k_.axpy(high - low, T(1), row, to + low);
            for (i64 ox = low; ox < high; ++ox, row += step) to[ox] += *row;
          });
      }
  }

  void backward_data(i64 block, i64 group, const T* dy, T* dx) {
    place(block, group, dy);
    product({.transpose_a = true, .m = deep_, .n = count(block), .k = rows_}, matrix_, slices_, columns_);
    const T* from = at_of(columns_);
    for (i64 b = 0; b < images(block); ++b)
      for (i64 c = 0; c < g_.group_channels(); ++c) {
        T* plane = dx + image_plane(block, b, group, c);
        if constexpr (Expand) {
          k_.fill(g_.height * g_.width, T(0), plane);
          for (i64 j = 0; j < expanded_; ++j) {
            const auto [low, high] = inside(j);
            const T* column = from + ((c * expanded_ + j) * images(block) + b) * image_;
            for (i64 y = 0; y < g_.height; ++y)
              for (i64 ox = low; ox < high; ++ox) plane[y * g_.width + at(ox, j)] += column[y * width_ + ox];
          }
        } else {
          copy(plane, from + (c * images(block) + b) * image_, image_);
        }
      }
  }

  void backward_weights(i64 block, i64 group, const T* x, const T* dy) {
    expand(block, group, x);
    place(block, group, dy);
    product({.transpose_b = true, .m = rows_, .n = deep_, .k = count(block), .beta = block == 0 ? 0.0 : 1.0}, slices_, columns_,
            matrix_);
  }

 private:
  tensor make(i64 n) { return tensor::allocate(d_, shape{n}, dtype_of<T>); }
  static T* at_of(tensor& t) { return t.mutable_data<T>(); }
  i64 first(i64 block) const { return block * images_; }
  i64 images(i64 block) const { return std::min(images_, g_.batch - first(block)); }
  i64 count(i64 block) const { return images(block) * image_; }
  i64 output_plane(i64 block, i64 b, i64 group, i64 o) const {
    return ((first(block) + b) * g_.outputs + group * g_.group_outputs() + o) * g_.pixels();
  }
  i64 image_plane(i64 block, i64 b, i64 group, i64 c) const {
    return ((first(block) + b) * g_.channels + group * g_.group_channels() + c) * g_.height * g_.width;
  }
  void product(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) {
    if (s.m * s.n * s.k > 0) d_.gemm(s, a, b, c);
  }

  // The image column that tap j reads for ox, and the range of ox for which it is inside the image.
  i64 at(i64 ox, i64 j) const { return ox * g_.stride_w + j * g_.dilation_w - g_.pad_w; }
  std::array<i64, 2> inside(i64 j) const {
    i64 low = 0, high = g_.out_w();
    while (low < high && at(low, j) < 0) ++low;
    while (high > low && at(high - 1, j) >= g_.width) --high;
    return {low, high};
  }

  template <class F>
  void each_weight(i64 group, F f) const {
    i64 from = group * g_.group_outputs() * g_.patch();
    for (i64 o = 0; o < g_.group_outputs(); ++o)
      for (i64 c = 0; c < g_.group_channels(); ++c)
        for (i64 tap = 0; tap < g_.kernel_h * g_.kernel_w; ++tap) {
          const i64 l = tap / expanded_, e = tap % expanded_;
          f(from++, (l * g_.group_outputs() + o) * deep_ + c * expanded_ + e);
        }
  }

  // Calls f(oy, low, high, column of (oy, low), step of columns) for the output pixels whose lifted
  // tap l is inside the image.
  template <class F>
  void each_shift(i64 l, F f) const {
    const i64 i = Expand ? l : l / g_.kernel_w, j = Expand ? 0 : l % g_.kernel_w;
    const auto [low, high] = Expand ? std::array<i64, 2>{0, g_.out_w()} : inside(j);
    if (low >= high) return;
    for (i64 oy = 0; oy < g_.out_h(); ++oy) {
      const i64 y = oy * g_.stride_h + i * g_.dilation_h - g_.pad_h;
      if (y >= 0 && y < g_.height) f(oy, low, high, y * width_ + (Expand ? low : at(low, j)), Expand ? 1 : g_.stride_w);
    }
  }

  void expand(i64 block, i64 group, const T* x) {
    T* to = at_of(columns_);
    for (i64 c = 0; c < g_.group_channels(); ++c)
      for (i64 e = 0; e < expanded_; ++e)
        for (i64 b = 0; b < images(block); ++b, to += image_) {
          const T* plane = x + image_plane(block, b, group, c);
          if constexpr (!Expand) {
            copy(to, plane, image_);
          } else {
            const auto [low, high] = inside(e);
            for (i64 y = 0; y < g_.height; ++y) {
              T* row = to + y * width_;
              for (i64 ox = 0; ox < low; ++ox) row[ox] = T(0);
              for (i64 ox = low; ox < high; ++ox) row[ox] = plane[y * g_.width + at(ox, e)];
              for (i64 ox = high; ox < width_; ++ox) row[ox] = T(0);
            }
          }
        }
  }

  void place(i64 block, i64 group, const T* dy) {
    T* to = at_of(slices_);
    zero(to, rows_ * count(block));
    for (i64 l = 0; l < lifted_; ++l)
      for (i64 o = 0; o < g_.group_outputs(); ++o)
        for (i64 b = 0; b < images(block); ++b, to += image_) {
          const T* plane = dy + output_plane(block, b, group, o);
          each_shift(l, [&](i64 oy, i64 low, i64 high, i64 column, i64 step) {
            for (i64 ox = low; ox < high; ++ox) to[column + (ox - low) * step] = plane[oy * g_.out_w() + ox];
          });
        }
  }

  device& d_;
  const kernels<T>& k_;
  const conv_geometry& g_;
  i64 expanded_, lifted_, width_, image_, deep_, rows_, images_;
  tensor matrix_, columns_, slices_;  // A, X, R
};

template <class T, bool Expand>
void forward(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* w, const T* bias, T* y) {
  lifting<T, Expand> lift(d, k, g);
  for (i64 group = 0; group < g.groups; ++group) {
    lift.arrange(w, group);
    for (i64 block = 0; block < lift.blocks(); ++block) lift.forward(block, group, x, bias, y);
  }
}

template <class T, bool Expand>
void backward_data(device& d, const kernels<T>& k, const conv_geometry& g, const T* dy, const T* w, T* dx) {
  lifting<T, Expand> lift(d, k, g);
  for (i64 group = 0; group < g.groups; ++group) {
    lift.arrange(w, group);
    for (i64 block = 0; block < lift.blocks(); ++block) lift.backward_data(block, group, dy, dx);
  }
}

template <class T, bool Expand>
void backward_weights(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* dy, T* dw, bool add) {
  lifting<T, Expand> lift(d, k, g);
  for (i64 group = 0; group < g.groups; ++group) {
    for (i64 block = 0; block < lift.blocks(); ++block) lift.backward_weights(block, group, x, dy);
    lift.rearrange(dw, group, add);
  }
}

}  // namespace

template <class T>
conv_passes<T> conv_lowering2() {
  return {forward<T, true>, backward_data<T, true>, backward_weights<T, true>};
}
template <class T>
conv_passes<T> conv_lowering3() {
  return {forward<T, false>, backward_data<T, false>, backward_weights<T, false>};
}
template conv_passes<float> conv_lowering2();
template conv_passes<double> conv_lowering2();
template conv_passes<float> conv_lowering3();
template conv_passes<double> conv_lowering3();

}  // namespace troupe::cpu
