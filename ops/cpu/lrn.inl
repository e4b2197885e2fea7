// Local response normalisation, Krizhevsky et al. 2012, section 3.3, with Caffe's alpha / |window|.
//   across channels  the window is `size` channels around c at one pixel; all loops run along the
//                    pixels of a plane
//   within channel   the window is size x size pixels, zero outside the image; sums of shifted
//                    padded planes, which are contiguous
// Backward: dx = dy scale^-beta - 2 alpha beta / |window| x sum over the window of (dy x
// scale^(-beta-1)).

template <class T>
inline void lrn_apply(i64 n, T beta, const T* x, const T* scale, T* y) {
  if (beta == T(0.75)) return each(n, x, scale, y, [](T v, T s) { return v * power_075(s); });
  each(n, x, scale, y, [beta](T v, T s) { return v * power_minus(s, beta); });
}

// out[c] = sum of in[c'] over the channels c' of the window around c.
template <class T>
inline void sum_channels(i64 c, i64 channels, i64 radius, i64 inner, const T* in, T* out) {
  if (radius == 2 && c >= 2 && c + 2 < channels) {
    const T* p = in + (c - 2) * inner;
#pragma GCC ivdep
    for (i64 i = 0; i < inner; ++i) out[i] = p[i] + p[i + inner] + p[i + 2 * inner] + p[i + 3 * inner] + p[i + 4 * inner];
    return;
  }
  fill(inner, T(0), out);
  for (i64 w = largest(c - radius, 0); w < smallest(c + radius + 1, channels); ++w) axpy(inner, T(1), in + w * inner, out);
}

// out = box sum of `in` (one plane), using two padded planes of scratch.
template <class T>
inline void sum_box(i64 height, i64 width, i64 radius, const T* in, T* out, T* scratch) {
  const i64 stride = width + 2 * radius;
  const i64 body = height * stride;
  T* padded = scratch;  // with radius rows of zeros above and below
  T* rows = scratch + (height + 2 * radius) * stride + 2 * radius;
  fill((height + 2 * radius) * stride + 2 * radius, T(0), padded);
  for (i64 y = 0; y < height; ++y) {
    T* to = padded + (y + radius) * stride + radius;
    for (i64 x = 0; x < width; ++x) to[x] = in[y * width + x];
  }
  const i64 all = body + 2 * radius * stride;
  for (i64 i = 0; i < all; ++i) rows[i] = padded[i];
  for (i64 j = 1; j <= 2 * radius; ++j) axpy(all, T(1), padded + j, rows);
  for (i64 i = 0; i < body; ++i) padded[i] = rows[i];
  for (i64 j = 1; j <= 2 * radius; ++j) axpy(body, T(1), rows + j * stride, padded);
  for (i64 y = 0; y < height; ++y)
    for (i64 x = 0; x < width; ++x) out[y * width + x] = padded[y * stride + x];
}

// 3 x 3 box sums of f(element) without copies: vectors along the row, neighbours by unaligned
// loads.
template <class T, class F>
inline void sum_nine(i64 height, i64 width, F f, T* out) {
  constexpr int lanes = lanes_of<T>;
  vec_bits<T> before;
  for (int l = 0; l < lanes; ++l) before[l] = l == 0 ? lanes : l - 1;
  for (i64 y = 0; y < height; ++y)
    for (i64 x = 0; x < width; x += lanes) {
      vec<T> middle{}, left{}, right{};
      for (i64 iy = largest(y - 1, 0); iy < smallest(y + 2, height); ++iy) {
        const i64 at = iy * width + x;
        const vec<T> here = f(at, width - x);
        middle += here;
        if (x > 0) left += f(at - 1, width - x + 1);
        if (x + 1 < width) right += f(at + 1, width - x - 1);
      }
      if (x == 0) left = __builtin_shuffle(middle, vec<T>{}, before);
      store_first(out + y * width + x, left + middle + right, width - x);
    }
}

template <class T>
void lrn(const lrn_geometry& g, const T* x, T* y, T* scale, T* scratch) {
  const i64 inner = g.height * g.width, radius = (g.size - 1) / 2;
  const T share = static_cast<T>(g.alpha / static_cast<double>(g.across_channels ? g.size : g.size * g.size));
  const T beta = static_cast<T>(g.beta), k = static_cast<T>(g.k);
  const i64 image = g.channels * inner;
  T* square = scratch;  // squares of one image
  for (i64 n = 0; n < g.batch; ++n) {
    const bool nine = !g.across_channels && radius == 1;
    if (!nine) each(image, x, square, [](T v) { return v * v; });
    for (i64 c = 0; c < g.channels; ++c) {
      T* s = scale + c * inner;
      if (g.across_channels)
        sum_channels(c, g.channels, radius, inner, square, s);
      else if (nine)
        sum_nine<T>(
            g.height, g.width,
            [&](i64 i, i64 count) {
              const vec<T> v = load_first(x + c * inner + i, count);
              return v * v;
            },
            s);
      else
        sum_box(g.height, g.width, radius, square + c * inner, s, scratch + image);
      for (i64 i = 0; i < inner; ++i) s[i] = k + share * s[i];
    }
    lrn_apply(image, beta, x, scale, y);
    x += image, y += image, scale += image;
  }
}

template <class T>
void lrn_backward(const lrn_geometry& g, const T* x, const T* scale, const T* dy, T* dx, T* scratch) {
  const i64 inner = g.height * g.width, radius = (g.size - 1) / 2;
  const double share = g.alpha / static_cast<double>(g.across_channels ? g.size : g.size * g.size);
  const T factor = static_cast<T>(2.0 * share * g.beta), beta = static_cast<T>(g.beta);
  const i64 image = g.channels * inner;
  T* ratio = scratch;        // dy x scale^(-beta-1), of one image
  T* sum = scratch + image;  // window sums of `ratio` for one channel
  for (i64 n = 0; n < g.batch; ++n) {
    lrn_apply(image, beta, dy, scale, dx);
    for (i64 i = 0; i < image; ++i) ratio[i] = dx[i] * x[i] / scale[i];
    for (i64 c = 0; c < g.channels; ++c) {
      if (g.across_channels)
        sum_channels(c, g.channels, radius, inner, ratio, sum);
      else if (radius == 1)
        sum_nine<T>(
            g.height, g.width, [&](i64 i, i64 count) { return load_first(ratio + c * inner + i, count); }, sum);
      else
        sum_box(g.height, g.width, radius, ratio + c * inner, sum, sum + inner);
      const T* in = x + c * inner;
      T* out = dx + c * inner;
#pragma GCC ivdep
      for (i64 i = 0; i < inner; ++i) out[i] -= factor * in[i] * sum[i];
    }
    x += image, dx += image, dy += image, scale += image;
  }
}
