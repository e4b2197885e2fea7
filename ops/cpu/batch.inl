// Inner loops of convolution with vectors of images: an element is `lanes` images, so that any
// number of channels and outputs fills the vectors and any stride reads whole vectors.

// R results at P places: sums over k of a[k][row] v[k_offset[k] + place]. Assigned, with bias, or
// added one after the other, since results of neighbouring rows may be at the same place.
template <class T, int R, int P>
void batch_tile_of(const batch_product<T>& s, const T* a, const T* bias, const T* v, const std::int32_t* to_offset, T* to) {
  vec<T> sum[R * P];
#pragma GCC unroll 14
  for (int r = 0; r < R; ++r) {
    const vec<T> start = (bias != nullptr ? bias[r] : T(0)) - vec<T>{};
#pragma GCC unroll 2
    for (int p = 0; p < P; ++p) sum[r * P + p] = start;
  }
  for (i64 k = 0; k < s.k_count; ++k, a += R) {
    const T* from = v + s.k_offset[k];
    vec<T> x[P];
#pragma GCC unroll 2
    for (int p = 0; p < P; ++p) x[p] = load(from + p * s.from_step);
#pragma GCC unroll 14
    for (int r = 0; r < R; ++r) {
      const vec<T> w = a[r] - vec<T>{};
#pragma GCC unroll 2
      for (int p = 0; p < P; ++p) sum[r * P + p] = fused(w, x[p], sum[r * P + p]);
    }
  }
#pragma GCC unroll 14
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int p = 0; p < P; ++p) {
      T* at = to + to_offset[r] + p * s.to_step;
      store(at, s.add ? load(at) + sum[r * P + p] : sum[r * P + p]);
    }
}

template <class T, int P, int... R>
struct batch_table {
  static constexpr void (*row[])(const batch_product<T>&, const T*, const T*, const T*, const std::int32_t*,
                                 T*) = {batch_tile_of<T, R, P>...};
};

template <class T>
void batch_tile(int rows, int places, const batch_product<T>& s, const T* a, const T* bias, const T* v,
                const std::int32_t* to_offset, T* to) {
#if TROUPE_TILE_ROWS == 14
  using one = batch_table<T, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
  using two = batch_table<T, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
#else
  using one = batch_table<T, 1, 1, 2, 3, 4, 5, 6>;
  using two = batch_table<T, 2, 1, 2, 3, 4, 5, 6>;
#endif
  (places == 1 ? one::row : two::row)[rows - 1](s, a, bias, v, to_offset, to);
}

// c[i][j] += sum over images and pixels of dy[i] x[offset[j]].
template <class T, int R, int C>
void batch_dot_of(const batch_sum& s, const T* dy, const T* x, const std::int32_t* offset, T* c, i64 ldc) {
  constexpr int lanes = lanes_of<T>;
  vec<T> sum[R * C];
#pragma GCC unroll 24
  for (int i = 0; i < R * C; ++i) sum[i] = vec<T>{};
  const T* column[C];
#pragma GCC unroll 6
  for (int j = 0; j < C; ++j) column[j] = x + offset[j];
  for (i64 row = 0; row < s.rows; ++row) {
    i64 at = row * s.row_step;
    for (i64 p = 0; p < s.width; ++p, at += s.step, dy += lanes) {
      vec<T> right[C];
#pragma GCC unroll 6
      for (int j = 0; j < C; ++j) right[j] = load(column[j] + at);
#pragma GCC unroll 4
      for (int i = 0; i < R; ++i) {
        const vec<T> left = load(dy + i * s.plane);
#pragma GCC unroll 6
        for (int j = 0; j < C; ++j) sum[i * C + j] = fused(left, right[j], sum[i * C + j]);
      }
    }
  }
  sum_lanes<T, R * C, lanes>(sum);
  T total[(R * C + lanes - 1) / lanes * lanes];
  for (int i = 0; i < R * C; i += lanes) store(total + i, sum[i / lanes]);
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) c[i * ldc + j] += total[i * C + j];
}

template <class T, int R>
void batch_dot_rows(int columns, const batch_sum& s, const T* dy, const T* x, const std::int32_t* offset, T* c, i64 ldc) {
  using f = void (*)(const batch_sum&, const T*, const T*, const std::int32_t*, T*, i64);
  static constexpr f table[] = {batch_dot_of<T, R, 1>, batch_dot_of<T, R, 2>, batch_dot_of<T, R, 3>,
                                batch_dot_of<T, R, 4>, batch_dot_of<T, R, 5>, batch_dot_of<T, R, 6>};
  table[columns - 1](s, dy, x, offset, c, ldc);
}

template <class T>
void batch_dot(int rows, int columns, const batch_sum& s, const T* dy, const T* x, const std::int32_t* offset, T* c, i64 ldc) {
  using f = void (*)(int, const batch_sum&, const T*, const T*, const std::int32_t*, T*, i64);
  static constexpr f table[] = {batch_dot_rows<T, 1>, batch_dot_rows<T, 2>, batch_dot_rows<T, 3>, batch_dot_rows<T, 4>};
  table[rows - 1](columns, s, dy, x, offset, c, ldc);
}

// Rows or columns [begin, end) of a window that are inside the image.
struct window_range {
  i64 begin, end;
  window_range(i64 out, i64 stride, i64 pad, i64 kernel, i64 extent)
      : begin(largest(out * stride - pad, 0)), end(smallest(out * stride - pad + kernel, extent)) {}
};

// Pooling on vectors of images. Calls f(output, rows, columns, plane of x) for the outputs in
// order.
template <class F>
inline void each_window(const pool_geometry& g, F f) {
  i64 out = 0;
  for (i64 p = 0; p < g.planes; ++p)
    for (i64 oy = 0; oy < g.out_h; ++oy) {
      const window_range rows(oy, g.stride_h, g.pad_h, g.kernel_h, g.height);
      for (i64 ox = 0; ox < g.out_w; ++ox, ++out)
        f(out, rows, window_range(ox, g.stride_w, g.pad_w, g.kernel_w, g.width), p * g.height * g.width);
    }
}

// As max_pool: the first in row order wins a tie, a NaN wins over every number.
template <class T>
void batch_pool(const pool_geometry& g, const T* x, T* y, std::int32_t* index) {
  constexpr int lanes = lanes_of<T>;
  each_window(g, [&](i64 out, const window_range& rows, const window_range& columns, i64 plane) {
    const i64 first = rows.begin * g.width + columns.begin;
    vec<T> best = load(x + (plane + first) * lanes);
    vec_bits<T> at = static_cast<typename bits_of<T>::type>(first) - vec_bits<T>{};
    for (i64 iy = rows.begin; iy < rows.end; ++iy)
      for (i64 ix = columns.begin; ix < columns.end; ++ix) {
        const i64 here = iy * g.width + ix;
        const vec<T> v = load(x + (plane + here) * lanes);
        const vec_bits<T> better = (v > best) | (v != v);
        best = better ? v : best;
        at = better ? static_cast<typename bits_of<T>::type>(here) - vec_bits<T>{} : at;
      }
    store(y + out * lanes, best);
    store(reinterpret_cast<T*>(index) + out * lanes, (vec<T>)at);
  });
}

template <class T>
void batch_pool_backward(const pool_geometry& g, const T* dy, const std::int32_t* index, T* dx) {
  constexpr int lanes = lanes_of<T>;
  // Adjacent windows that cover the image: each element belongs to one window and is written once.
  const bool side_by_side = g.pad_h == 0 && g.pad_w == 0 && g.stride_h == g.kernel_h && g.stride_w == g.kernel_w &&
                            g.out_h * g.stride_h >= g.height && g.out_w * g.stride_w >= g.width;
  if (!side_by_side) fill(g.planes * g.height * g.width * lanes, T(0), dx);
  each_window(g, [&](i64 out, const window_range& rows, const window_range& columns, i64 plane) {
    const vec<T> d = load(dy + out * lanes);
    const vec_bits<T> at = (vec_bits<T>)load(reinterpret_cast<const T*>(index) + out * lanes);
    for (i64 iy = rows.begin; iy < rows.end; ++iy)
      for (i64 ix = columns.begin; ix < columns.end; ++ix) {
        const i64 here = iy * g.width + ix;
        T* to = dx + (plane + here) * lanes;
        const vec_bits<T> won = at == static_cast<typename bits_of<T>::type>(here) - vec_bits<T>{};
        store(to, (side_by_side ? vec<T>{} : load(to)) + (won ? d : vec<T>{}));
      }
  });
}
