// Pooling with stride 2 and square windows of 2 or 3, without padding: the common case. Vectors
// along the outputs of a row. Taps are the even and odd pixels of whole vectors, maxima are offsets
// within the window. Values are floats or bf16; the latter are widened for the computation and
// rounded on output. Backward is a gather: an element of dx adds, in the order of the outputs, the
// dy of the windows whose maximum it is (or its share of them).

inline float value_at(float x) { return x; }
inline float value_at(half x) { return load_first(&x, 1)[0]; }

// Window of output (oy, ox), clipped to the image: the general case, for borders.
template <int K, class T>
inline void max_window(const pool_geometry& g, const T* plane, i64 oy, i64 ox, T* y, std::int32_t* index) {
  i64 at = 2 * oy * g.width + 2 * ox;
  float best = value_at(plane[at]);
  for (i64 iy = 2 * oy; iy < smallest(2 * oy + K, g.height); ++iy)
    for (i64 ix = 2 * ox; ix < smallest(2 * ox + K, g.width); ++ix) {
      const float v = value_at(plane[iy * g.width + ix]);
      if (v > best || v != v) best = v, at = iy * g.width + ix;
    }
  y[ox] = plane[at];
  index[ox] = static_cast<std::int32_t>(at);
}

// `rows`: window rows inside the image. Clipped: the last windows extend beyond the row, and must
// not use the elements of the next row.
template <int K, bool Clipped, class S>
inline void max_row_by_two(i64 rows, i64 width, i64 start, i64 outputs, const S* x, S* y, std::int32_t* index) {
  using T = float;
  constexpr int lanes = lanes_of<T>;
  vec_bits<T> twice;
  for (int l = 0; l < lanes; ++l) twice[l] = 2 * l;
  for (i64 o = 0; o < outputs; o += lanes) {
    vec<T> best{};
    vec_bits<T> at{};
#pragma GCC unroll 3
    for (int i = 0; i < K; ++i) {
      if (i >= rows) break;
      const S* p = x + i * width + 2 * o;
      const pixel_pairs<T> here(p);
#pragma GCC unroll 3
      for (int j = 0; j < K; ++j) {
        const vec<T> v = j == 0 ? here.even : (j == 1 ? here.odd : pixel_pairs<T>(p + 2).even);
        const vec_bits<T> offset = static_cast<std::int32_t>(i * width + j) - vec_bits<T>{};
        vec_bits<T> better = (v > best) | (v != v);
        if (Clipped && j > 0) better &= twice < static_cast<std::int32_t>(width - 2 * o - j) - vec_bits<T>{};
        best = i + j == 0 ? v : (better ? v : best);
        at = i + j == 0 ? offset : (better ? offset : at);
      }
    }
    at += twice + static_cast<std::int32_t>(start + 2 * o);
    store_first(y + o, best, outputs - o);
    store_first(reinterpret_cast<T*>(index + o), (vec<T>)at, outputs - o);
  }
}

template <int K, class S>
void max_pool_by_two(const pool_geometry& g, const S* x, S* y, std::int32_t* index) {
  constexpr int lanes = lanes_of<float>;
  const i64 plane = g.height * g.width;
  const bool clipped = 2 * (g.out_w - 1) + K > g.width;
  const i64 reach = 2 * ((g.out_w + lanes - 1) / lanes * lanes) + 2;  // number of elements of a row that whole vectors read
  const S* end = x + g.planes * plane;
  for (i64 p = 0; p < g.planes; ++p, x += plane)
    for (i64 oy = 0; oy < g.out_h; ++oy, y += g.out_w, index += g.out_w) {
      const i64 rows = smallest(K, g.height - 2 * oy), start = 2 * oy * g.width;
      i64 ox = 0;
      if (x + start + (rows - 1) * g.width + reach <= end) {
        (clipped ? max_row_by_two<K, true, S> : max_row_by_two<K, false, S>)(rows, g.width, start, g.out_w, x + start, y, index);
        ox = g.out_w;
      }
      for (; ox < g.out_w; ++ox) max_window<K>(g, x, oy, ox, y, index);
    }
}

// Shifts the lanes up by one; the first becomes zero.
template <class V>
inline V moved_up(V v) {
  vec_bits<float> before;
  for (int l = 0; l < lanes_of<float>; ++l) before[l] = l == 0 ? lanes_of<float> : l - 1;
  return __builtin_shuffle(v, V{}, before);
}

// dy and maxima of `count` outputs of a row from p on; dy is zero beyond them.
struct row_of_winners {
  vec<float> dy;
  vec_bits<float> at;
  template <class S>
  row_of_winners(const S* d, const std::int32_t* index, i64 count)
      : dy(load_first(d, count)), at((vec_bits<float>)load_first(reinterpret_cast<const float*>(index), count)) {}
  void move_up_a_lane() { dy = moved_up(dy), at = moved_up(at); }
  vec<float> won(vec_bits<float> where) const { return at == where ? dy : vec<float>{}; }
};

// Stores the first n of even[0], odd[0], even[1], ...
template <class S>
inline void store_pairs(S* to, vec<float> even, vec<float> odd, i64 n) {
  constexpr int lanes = lanes_of<float>;
  vec_bits<float> low, high;
  for (int i = 0; i < lanes; ++i) {
    low[i] = i / 2 + (i % 2) * lanes;
    high[i] = low[i] + lanes / 2;
  }
  store_first(to, __builtin_shuffle(even, odd, low), n);
  if (n > lanes) store_first(to + lanes, __builtin_shuffle(even, odd, high), n - lanes);
}

template <int K, class S>
void max_pool_backward_by_two(const pool_geometry& g, const S* dy, const std::int32_t* index, S* dx) {
  using T = float;
  constexpr int lanes = lanes_of<T>;
  vec_bits<T> twice;
  for (int i = 0; i < lanes; ++i) twice[i] = 2 * i;
  const i64 plane = g.height * g.width, out = g.out_h * g.out_w;
  for (i64 p = 0; p < g.planes; ++p, dx += plane, dy += out, index += out)
    for (i64 y = 0; y < g.height; ++y)
      for (i64 b = 0; 2 * b < g.width; b += lanes) {
        const vec_bits<T> at = twice + static_cast<std::int32_t>(y * g.width + 2 * b);
        vec<T> even{}, odd{};
        for (i64 oy = y / 2 - (K == 3 && y % 2 == 0 ? 1 : 0); oy <= y / 2; ++oy) {
          if (oy < 0 || oy >= g.out_h) continue;
          const i64 first = oy * g.out_w + b;
          const row_of_winners here(dy + first, index + first, largest(g.out_w - b, 0));
          if constexpr (K == 3) {
            row_of_winners left = here;
            if (b == 0)
              left.move_up_a_lane();
            else
              left = row_of_winners(dy + first - 1, index + first - 1, g.out_w - b + 1);
            even += left.won(at);
          }
          even += here.won(at);
          odd += here.won(at + 1);
        }
        store_pairs(dx + y * g.width + 2 * b, even, odd, g.width - 2 * b);
      }
}

// The window size, 2 or 3, if the kernels of this file support the geometry; otherwise 0.
inline int window_by_two(const pool_geometry& g) {
  const bool fits = g.kernel_h == g.kernel_w && g.stride_h == 2 && g.stride_w == 2 && g.pad_h == 0 && g.pad_w == 0 &&
                    g.width >= g.kernel_w && (g.kernel_h == 2 || g.kernel_h == 3);
  return fits ? static_cast<int>(g.kernel_h) : 0;
}

// Number of rows of a window, clipped to the image, or to image plus padding.
inline i64 window_rows(const pool_geometry& g, i64 oy) {
  const i64 start = oy * g.stride_h - g.pad_h;
  const i64 end = smallest(start + g.kernel_h, g.height + (g.count_padding ? g.pad_h : 0));
  return end - (g.count_padding ? start : largest(start, 0));
}

template <int K>
void avg_pool_by_two(const pool_geometry& g, const float* columns, const float* x, float* y) {
  using T = float;
  constexpr int lanes = lanes_of<T>;
  vec_bits<T> e, o;
  for (int i = 0; i < lanes; ++i) e[i] = 2 * i, o[i] = 2 * i + 1;
  for (i64 p = 0; p < g.planes; ++p, x += g.height * g.width)
    for (i64 oy = 0; oy < g.out_h; ++oy, y += g.out_w) {
      const i64 end = smallest(2 * oy + K, g.height);
      const T rows = static_cast<T>(window_rows(g, oy));
      for (i64 ox = 0; ox < g.out_w; ox += lanes) {
        vec<T> part[4] = {};  // columns from 2 ox on, and from 2 ox + 2 on
        for (i64 iy = 2 * oy; iy < end; ++iy) {
          const T* row = x + iy * g.width + 2 * ox;
          const i64 left = g.width - 2 * ox;
#pragma GCC unroll 4
          for (int i = 0; i < (K == 3 ? 4 : 2); ++i) {
            const i64 at = i % 2 * lanes + i / 2 * 2;
            if (left > at) part[i] += load_first(row + at, left - at);
          }
        }
        vec<T> sum = __builtin_shuffle(part[0], part[1], e) + __builtin_shuffle(part[0], part[1], o);
        if (K == 3) sum += __builtin_shuffle(part[2], part[3], e);
        const i64 count = g.out_w - ox;
        store_first(y + ox, sum / (rows * load_first(columns + ox, count)), count);
      }
    }
}

template <int K>
void avg_pool_backward_by_two(const pool_geometry& g, const float* columns, const float* dy, float* dx) {
  using T = float;
  constexpr int lanes = lanes_of<T>;
  const i64 plane = g.height * g.width, out = g.out_h * g.out_w;
  // The share that output b + lane of row oy gives to each element of its window.
  const auto share = [&](const T* d, i64 oy, i64 b) {
    const i64 count = g.out_w - b;
    if (count <= 0) return vec<T>{};
    const vec<T> extent = load_first(columns + b, count);
    return load_first(d + oy * g.out_w + b, count) /
           (static_cast<T>(window_rows(g, oy)) * (extent != vec<T>{} ? extent : vec<T>{} + T(1)));
  };
  for (i64 p = 0; p < g.planes; ++p, dx += plane, dy += out)
    for (i64 y = 0; y < g.height; ++y)
      for (i64 b = 0; 2 * b < g.width; b += lanes) {
        vec<T> even{}, odd{};
        for (i64 oy = y / 2 - (K == 3 && y % 2 == 0 ? 1 : 0); oy <= y / 2; ++oy) {
          if (oy < 0 || oy >= g.out_h) continue;
          const vec<T> here = share(dy, oy, b);
          if (K == 3) even += b == 0 ? moved_up(here) : share(dy, oy, b - 1);
          even += here;
          odd += here;
        }
        store_pairs(dx + y * g.width + 2 * b, even, odd, g.width - 2 * b);
      }
}
