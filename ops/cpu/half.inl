// bf16 arrays as arrays of bits (ops/bf16.hpp): conversions, and operations without arithmetic.

inline std::uint32_t bits_from(float x) {
  std::uint32_t u;
  __builtin_memcpy(&u, &x, sizeof u);
  return u;
}
inline float float_from(std::uint32_t u) {
  float x;
  __builtin_memcpy(&x, &u, sizeof x);
  return x;
}

inline void widen(i64 n, const half* x, float* y) {
  for (i64 i = 0; i < n; ++i) y[i] = float_from(std::uint32_t{x[i]} << 16);
}

// Rounds to nearest, ties to even; a NaN becomes a quiet NaN.
inline half half_from(float x) {
  const std::uint32_t u = bits_from(x);
  const std::uint32_t nearest = u + 0x7fffU + (u >> 16 & 1U), quiet = u | 0x400000U;
  return static_cast<half>(((u & 0x7fffffffU) > 0x7f800000U ? quiet : nearest) >> 16);
}
inline float widened(half x) { return float_from(std::uint32_t{x} << 16); }

inline void narrow(i64 n, const float* x, half* y) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) y[i] = half_from(x[i]);
}

// True for numbers less than zero; false for -0 and NaN, which relu leaves unchanged.
inline bool is_negative(half x) { return x > 0x8000U && x <= 0xff80U; }
inline bool is_positive(half x) { return static_cast<half>(x - 1U) < 0x7f80U; }

inline void relu_half(i64 n, const half* x, half* y) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) y[i] = is_negative(x[i]) ? half{0} : x[i];
}

inline void relu_backward_half(i64 n, const half* y, const half* dy, half* dx) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) dx[i] = is_positive(y[i]) ? dy[i] : half{0};
}

// Adds in the order of the f32 reduce_sum.
inline void reduce_sum_half(i64 outer, i64 mid, i64 inner, const half* x, float* out) {
  if (inner == 1) {
    fill(mid, 0.0F, out);
    for (i64 o = 0; o < outer; ++o)
      for (i64 m = 0; m < mid; ++m) out[m] += widened(x[o * mid + m]);
    return;
  }
  for (i64 m = 0; m < mid; ++m) {
    float lane[16] = {};
    for (i64 o = 0; o < outer; ++o) {
      const half* row = x + (o * mid + m) * inner;
      i64 i = 0;
      for (; i + 16 <= inner; i += 16)
        for (int l = 0; l < 16; ++l) lane[l] += widened(row[i + l]);
      for (int l = 0; i < inner; ++i, ++l) lane[l] += widened(row[i]);
    }
    out[m] = fold(lane);
  }
}

// Local response normalisation across channels (formulas: lrn.inl), for a strip of pixels of all
// channels at a time, so that intermediate values stay in the cache. scratch: 2 channels half_strip
// elements. sum_window: sum[i] over the channels of the window around c.
inline void sum_window(i64 c, i64 channels, i64 radius, const float* of, float* sum) {
  if (radius == 2 && c >= 2 && c + 2 < channels) {
    const float* p = of + (c - 2) * half_strip;
    for (i64 i = 0; i < half_strip; ++i)
      sum[i] = p[i] + p[i + half_strip] + p[i + 2 * half_strip] + p[i + 3 * half_strip] + p[i + 4 * half_strip];
    return;
  }
  for (i64 i = 0; i < half_strip; ++i) sum[i] = 0.0F;
  for (i64 w = largest(c - radius, 0); w < smallest(c + radius + 1, channels); ++w)
    for (i64 i = 0; i < half_strip; ++i) sum[i] += of[w * half_strip + i];
}

// 1 / sqrt(x) with a relative error of 5e-6, which is below the precision of bf16.
inline float rough_inverse_root(float x) {
  float y = float_from(0x5f375a86U - (bits_from(x) >> 1));
  const float h = 0.5F * x;
  for (int i = 0; i < 2; ++i) y = y * (1.5F - h * y * y);
  return y;
}
// Returns s^-beta; `over` gets s^(-beta - 1).
struct power_of_075 {
  float operator()(float s, float& over) const {
    const float r = rough_inverse_root(s), square = r * r, power = square * rough_inverse_root(r);
    over = power * square;
    return power;
  }
};
struct any_power {
  float beta;
  float operator()(float s, float& over) const {
    const float power = power_minus(s, beta);
    over = power / s;
    return power;
  }
};

// Calls f(first pixel, pixels) for the strips of a plane. All strips are whole: the last one may
// overlap the one before, where both write the same values. A smaller plane is a single part.
template <class Whole, class Part>
inline void each_strip(i64 inner, Whole whole, Part part) {
  if (inner < half_strip) return part(i64{0}, inner);
  for (i64 first = 0; first < inner; first += half_strip) whole(smallest(first, inner - half_strip));
}

template <class Count, class Power>
inline void lrn_half_strip(const lrn_geometry& g, Power power, Count count_of, const half* x, half* y, half* scale, float* square) {
  const i64 inner = g.height * g.width, radius = (g.size - 1) / 2, count = count_of();
  const float share = static_cast<float>(g.alpha / static_cast<double>(g.size)), k = static_cast<float>(g.k);
  for (i64 c = 0; c < g.channels; ++c)
    for (i64 i = 0; i < count; ++i) square[c * half_strip + i] = widened(x[c * inner + i]) * widened(x[c * inner + i]);
  for (i64 c = 0; c < g.channels; ++c) {
    float sum[half_strip];
    sum_window(c, g.channels, radius, square, sum);
    const half* in = x + c * inner;
    half *out = y + c * inner, *kept = scale + c * inner;
#pragma GCC ivdep
    for (i64 i = 0; i < count; ++i) {
      float over;
      const float s = k + share * sum[i];
      kept[i] = half_from(s);
      out[i] = half_from(widened(in[i]) * power(s, over));
    }
  }
}

template <class Count, class Power>
inline void lrn_backward_half_strip(const lrn_geometry& g, Power power, Count count_of, const half* x, const half* scale,
                                    const half* dy, half* dx, float* ratio) {
  const i64 inner = g.height * g.width, radius = (g.size - 1) / 2, count = count_of();
  const float factor = static_cast<float>(2.0 * g.alpha / static_cast<double>(g.size) * g.beta);
  float* direct = ratio + g.channels * half_strip;
  for (i64 c = 0; c < g.channels; ++c) {
    float *r = ratio + c * half_strip, *d = direct + c * half_strip;
#pragma GCC ivdep
    for (i64 i = 0; i < count; ++i) {
      const i64 at = c * inner + i;
      float over;
      const float slope = widened(dy[at]), p = power(widened(scale[at]), over);
      d[i] = slope * p;
      r[i] = slope * widened(x[at]) * over;
    }
  }
  for (i64 c = 0; c < g.channels; ++c) {
    float sum[half_strip];
    sum_window(c, g.channels, radius, ratio, sum);
    const float* d = direct + c * half_strip;
    const half* in = x + c * inner;
    half* out = dx + c * inner;
#pragma GCC ivdep
    for (i64 i = 0; i < count; ++i) out[i] = half_from(d[i] - factor * widened(in[i]) * sum[i]);
  }
}

struct whole_strip {
  constexpr i64 operator()() const { return half_strip; }
};
struct part_of_strip {
  i64 count;
  i64 operator()() const { return count; }
};

template <class Power>
inline void lrn_half_with(const lrn_geometry& g, Power power, const half* x, half* y, half* scale, float* scratch) {
  const i64 inner = g.height * g.width, image = g.channels * inner;
  for (i64 n = 0; n < g.batch; ++n, x += image, y += image, scale += image)
    each_strip(
        inner, [&](i64 at) { lrn_half_strip(g, power, whole_strip{}, x + at, y + at, scale + at, scratch); },
        [&](i64, i64 count) { lrn_half_strip(g, power, part_of_strip{count}, x, y, scale, scratch); });
}
template <class Power>
inline void lrn_backward_half_with(const lrn_geometry& g, Power power, const half* x, const half* scale, const half* dy, half* dx,
                                   float* scratch) {
  const i64 inner = g.height * g.width, image = g.channels * inner;
  for (i64 n = 0; n < g.batch; ++n, x += image, dx += image, dy += image, scale += image)
    each_strip(
        inner, [&](i64 at) { lrn_backward_half_strip(g, power, whole_strip{}, x + at, scale + at, dy + at, dx + at, scratch); },
        [&](i64, i64 count) { lrn_backward_half_strip(g, power, part_of_strip{count}, x, scale, dy, dx, scratch); });
}

inline void lrn_half(const lrn_geometry& g, const half* x, half* y, half* scale, float* scratch) {
  if (g.beta == 0.75) return lrn_half_with(g, power_of_075{}, x, y, scale, scratch);
  lrn_half_with(g, any_power{static_cast<float>(g.beta)}, x, y, scale, scratch);
}
inline void lrn_backward_half(const lrn_geometry& g, const half* x, const half* scale, const half* dy, half* dx, float* scratch) {
  if (g.beta == 0.75) return lrn_backward_half_with(g, power_of_075{}, x, scale, dy, dx, scratch);
  lrn_backward_half_with(g, any_power{static_cast<float>(g.beta)}, x, scale, dy, dx, scratch);
}

// Supports the geometries of pool2.inl; returns false for others.
inline bool max_pool_half(const pool_geometry& g, const half* x, half* y, std::int32_t* index) {
  const int window = window_by_two(g);
  if (window == 2) max_pool_by_two<2>(g, x, y, index);
  if (window == 3) max_pool_by_two<3>(g, x, y, index);
  return window != 0;
}
inline bool max_pool_backward_half(const pool_geometry& g, const half* dy, const std::int32_t* index, half* dx) {
  const int window = window_by_two(g);
  if (window == 2) max_pool_backward_by_two<2>(g, dy, index, dx);
  if (window == 3) max_pool_backward_by_two<3>(g, dy, index, dx);
  return window != 0;
}
