// Pooling, with vectors along the row.
//
// Max pooling first reduces the columns of a window (contiguous loads), then the row, using two
// scratch rows with borders: the maximum of each column, and its position in the plane (as a T,
// exact below 2^24).

// Loads a vector at p; reads only elements before `end`, the others are zero.
template <class T>
inline vec<T> load_before(const T* p, const T* end) {
  if (p + lanes_of<T> <= end) return load(p);
  T part[lanes_of<T>] = {};
  for (int i = 0; p + i < end; ++i) part[i] = p[i];
  return load(part);
}
template <class T>
inline void store_before(T* p, const T* end, vec<T> v) {
  if (p + lanes_of<T> <= end) return store(p, v);
  for (int i = 0; p + i < end; ++i) p[i] = v[i];
}
template <class T>
inline void store_before(std::int32_t* p, const std::int32_t* end, vec<T> v) {
  typedef std::int32_t narrow __attribute__((vector_size(lanes_of<T> * sizeof(std::int32_t)), aligned(4), may_alias));
  if (p + lanes_of<T> <= end) {
    *reinterpret_cast<narrow*>(p) = __builtin_convertvector(v, narrow);
    return;
  }
  for (int i = 0; p + i < end; ++i) p[i] = static_cast<std::int32_t>(v[i]);
}

template <class T>
inline vec<T> choose(vec_bits<T> mask, vec<T> a, vec<T> b) {
  return mask ? a : b;
}

// Loads elements p[0], p[stride], ...
template <int S, class T>
inline vec<T> load_strided(const T* p, i64 stride) {
  if constexpr (S == 1) return load(p);
  if constexpr (S == 2) {
    vec_bits<T> even;
    for (int i = 0; i < lanes_of<T>; ++i) even[i] = 2 * i;
    return __builtin_shuffle(load(p), load(p + lanes_of<T>), even);
  }
  T part[lanes_of<T>];
  const i64 step = S > 0 ? S : stride;
  for (int i = 0; i < lanes_of<T>; ++i) part[i] = p[i * step];
  return load(part);
}

template <class T>
struct max_row {
  T *best, *at;  // scratch rows; element 0 is the first one of the left border
  i64 length;    // borders and image, in whole vectors plus slack
};

// Fills the scratch rows for window rows [first, last).
template <class T>
inline void max_columns(const pool_geometry& g, const T* plane, const T* end, i64 first, i64 last, const max_row<T>& row) {
  constexpr int lanes = lanes_of<T>;
  vec<T> iota;
  for (int l = 0; l < lanes; ++l) iota[l] = static_cast<T>(l);
  for (i64 x = 0; x < g.width; x += lanes) {
    vec<T> best = load_before(plane + first * g.width + x, end), at = iota + static_cast<T>(first * g.width + x);
    for (i64 iy = first + 1; iy < last; ++iy) {
      const vec<T> v = load_before(plane + iy * g.width + x, end);
      const vec_bits<T> better = (v > best) | (v != v);
      best = choose<T>(better, v, best);
      at = choose<T>(better, iota + static_cast<T>(iy * g.width + x), at);
    }
    store(row.best + g.pad_w + x, best);
    store(row.at + g.pad_w + x, at);
  }
  for (i64 x = g.pad_w + g.width; x < row.length; x += lanes) {  // the right border, which the last vector may have overwritten
    store(row.best + x, vec<T>{} - T(__builtin_inf()));
    store(row.at + x, vec<T>{} + T(1 << 24));
  }
}

template <int S, class T>
inline void max_pool_rows(const pool_geometry& g, const T* x, T* y, std::int32_t* index, T* scratch) {
  constexpr int lanes = lanes_of<T>;
  const i64 plane = g.height * g.width;
  const i64 length = largest(g.pad_w + g.width, (g.out_w - 1) * g.stride_w + g.kernel_w);
  const max_row<T> row{scratch, scratch + length + lanes * g.stride_w + 2 * lanes, length};
  for (i64 i = 0; i < g.pad_w; ++i) row.best[i] = -T(__builtin_inf()), row.at[i] = T(1 << 24);
  const T* end = x + g.planes * plane;
  T* y_end = y + g.planes * g.out_h * g.out_w;
  const std::int32_t* index_end = index + g.planes * g.out_h * g.out_w;
  for (i64 p = 0; p < g.planes; ++p, x += plane) {
    for (i64 oy = 0; oy < g.out_h; ++oy, y += g.out_w, index += g.out_w) {
      const i64 top = oy * g.stride_h - g.pad_h;
      max_columns(g, x, end, largest(top, 0), smallest(top + g.kernel_h, g.height), row);
      for (i64 o = 0; o < g.out_w; o += lanes) {
        vec<T> best = load_strided<S>(row.best + o * g.stride_w, g.stride_w),
               at = load_strided<S>(row.at + o * g.stride_w, g.stride_w);
        for (i64 j = 1; j < g.kernel_w; ++j) {
          const vec<T> v = load_strided<S>(row.best + o * g.stride_w + j, g.stride_w);
          const vec<T> w = load_strided<S>(row.at + o * g.stride_w + j, g.stride_w);
          const vec_bits<T> better = (v > best) | (v != v) | ((v == best) & (w < at));
          best = choose<T>(better, v, best);
          at = choose<T>(better, w, at);
        }
        // A row may overwrite the start of the next one, which is written later.
        store_before<T>(y + o, y_end, best);
        store_before<T>(index + o, index_end, at);
      }
    }
  }
}

template <class T>
void max_pool(const pool_geometry& g, const T* x, T* y, std::int32_t* index, T* scratch) {
  if constexpr (sizeof(T) == 4) {
    if (window_by_two(g) == 2) return max_pool_by_two<2>(g, x, y, index);
    if (window_by_two(g) == 3) return max_pool_by_two<3>(g, x, y, index);
  }
  if (g.stride_w == 1) return max_pool_rows<1>(g, x, y, index, scratch);
  if (g.stride_w == 2) return max_pool_rows<2>(g, x, y, index, scratch);
  return max_pool_rows<0>(g, x, y, index, scratch);
}

template <class T>
void max_pool_backward(const pool_geometry& g, const T* dy, const std::int32_t* index, T* dx) {
  if constexpr (sizeof(T) == 4) {
    if (window_by_two(g) == 2) return max_pool_backward_by_two<2>(g, dy, index, dx);
    if (window_by_two(g) == 3) return max_pool_backward_by_two<3>(g, dy, index, dx);
  }
  const i64 in = g.height * g.width, out = g.out_h * g.out_w;
  for (i64 p = 0; p < g.planes; ++p) {
    fill(in, T(0), dx);
    for (i64 o = 0; o < out; ++o) dx[index[o]] += dy[o];
    dx += in;
    dy += out;
    index += out;
  }
}

template <class T>
void avg_pool(const pool_geometry& g, const tap_range* taps, const T* columns, const T* x, T* y, T* scratch) {
  if constexpr (sizeof(T) == 4) {
    if (window_by_two(g) == 2) return avg_pool_by_two<2>(g, columns, x, y);
    if (window_by_two(g) == 3) return avg_pool_by_two<3>(g, columns, x, y);
  }
  T* row = scratch;  // column sums of the window's rows
  for (i64 p = 0; p < g.planes; ++p) {
    for (i64 oy = 0; oy < g.out_h; ++oy) {
      const i64 top = oy * g.stride_h - g.pad_h;
      fill(g.width, T(0), row);
      for (i64 iy = largest(top, 0); iy < smallest(top + g.kernel_h, g.height); ++iy) axpy(g.width, T(1), x + iy * g.width, row);
      fill(g.out_w, T(0), y);
      for (i64 j = 0; j < g.kernel_w; ++j) {
        const tap_range r = taps[j];
        for (i64 o = r.low; o < r.high; ++o) y[o] += row[o * g.stride_w + j - g.pad_w];
      }
      const T rows = static_cast<T>(window_rows(g, oy));
      for (i64 o = 0; o < g.out_w; ++o) y[o] /= rows * columns[o];
      y += g.out_w;
    }
    x += g.height * g.width;
  }
}

template <class T>
void avg_pool_backward(const pool_geometry& g, const tap_range* taps, const T* columns, const T* dy, T* dx, T* scratch) {
  if constexpr (sizeof(T) == 4) {
    if (window_by_two(g) == 2) return avg_pool_backward_by_two<2>(g, columns, dy, dx);
    if (window_by_two(g) == 3) return avg_pool_backward_by_two<3>(g, columns, dy, dx);
  }
  T* share = scratch;          // dy / elements
  T* row = scratch + g.out_w;  // share of each row of the window
  fill(g.planes * g.height * g.width, T(0), dx);
  for (i64 p = 0; p < g.planes; ++p) {
    for (i64 oy = 0; oy < g.out_h; ++oy) {
      const T rows = static_cast<T>(window_rows(g, oy));
      for (i64 o = 0; o < g.out_w; ++o) share[o] = dy[o] / (rows * columns[o]);
      fill(g.width, T(0), row);
      for (i64 j = 0; j < g.kernel_w; ++j) {
        const tap_range r = taps[j];
        for (i64 o = r.low; o < r.high; ++o) row[o * g.stride_w + j - g.pad_w] += share[o];
      }
      const i64 top = oy * g.stride_h - g.pad_h;
      for (i64 iy = largest(top, 0); iy < smallest(top + g.kernel_h, g.height); ++iy) axpy(g.width, T(1), row, dx + iy * g.width);
      dy += g.out_w;
    }
    dx += g.height * g.width;
  }
}
