// Normalisation by channel of x [outer, mid, inner] (device::norm_*): every mid has its own mean
// and scale. Only x, y and their gradients have the size of x. The sums of a channel are computed
// first, and its elements are written next, while they are in the cache.
//
// Sums run over blocks of at most `norm_block` elements in vectors of T, and over the blocks in
// double. The order depends only on the extents. Mean and squared deviations are computed in one
// pass: the deviations of a block from the mean so far, combined as in Chan, Golub and LeVeque
// 1979, eq. 1.5. A block that is far from that mean contributes as much to the result as it may
// lose to rounding, so there is no cancellation.

constexpr i64 norm_block = 2048;

// A column of the table of a normalisation: y = (x - mean) slope + shift, xhat = (x - mean) r.
template <class T>
struct norm_row {
  T mean, r, slope, shift;
  norm_row(const T* table, i64 mid, i64 m)
      : mean(table[m]), r(table[mid + m]), slope(table[2 * mid + m]), shift(table[3 * mid + m]) {}
  vec<T> at(vec<T> x) const { return fused(x - mean, slope - vec<T>{}, shift - vec<T>{}); }
};

// Sets the lanes from the n-th on to zero.
template <class T>
inline vec<T> keep_first(vec<T> v, i64 n) {
  if (n >= lanes_of<T>) return v;
  vec_bits<T> lane;
  for (int i = 0; i < lanes_of<T>; ++i) lane[i] = i;
  return lane < static_cast<typename bits_of<T>::type>(n) ? v : vec<T>{};
}

template <class T>
inline T sum_of(vec<T> v) {
  T lane[lanes_of<T>];
  store(lane, v);
  for (int width = lanes_of<T> / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  return lane[0];
}

// Computes N sums over `rows` rows of n elements, `step` apart. f(first element, count, N sums to
// add to) adds one vector; elements beyond `count` must be zero.
template <class T, int N, class F>
inline void sum_block(i64 rows, i64 step, i64 n, T (&total)[N], F f) {
  constexpr int lanes = lanes_of<T>, chains = 4;
  vec<T> sum[chains][N] = {};
  for (i64 r = 0; r < rows; ++r) {
    const i64 row = r * step;
    i64 i = 0;
    for (; i + chains * lanes <= n; i += chains * lanes)
#pragma GCC unroll 4
      for (int c = 0; c < chains; ++c) f(row + i + c * lanes, lanes, sum[c]);
    for (; i < n; i += lanes) f(row + i, smallest(lanes, n - i), sum[0]);
  }
  for (int k = 0; k < N; ++k) total[k] = sum_of<T>((sum[0][k] + sum[1][k]) + (sum[2][k] + sum[3][k]));
}

// Calls f(first element, rows, elements of a row) for the blocks of channel m. Rows of a block are
// mid
// * inner apart.
template <class F>
inline void each_norm_block(i64 outer, i64 mid, i64 inner, i64 m, F f) {
  const i64 rows = inner < norm_block ? norm_block / inner : 1;
  for (i64 o = 0; o < outer; o += rows)
    for (i64 i = 0; i < inner; i += norm_block)
      f((o * mid + m) * inner + i, smallest(rows, outer - o), smallest(norm_block, inner - i));
}

template <class T>
void channel_moments(i64 outer, i64 mid, i64 inner, i64 m, const T* x, T* mean, T* variance) {
  double count = 0, centre = 0, squares = 0;
  each_norm_block(outer, mid, inner, m, [&](i64 first, i64 rows, i64 n) {
    const T* p = x + first;
    const double size = static_cast<double>(rows * n);
    if (count == 0) {
      T sum[1];
      sum_block<T, 1>(rows, mid * inner, n, sum, [p](i64 at, i64 k, vec<T>* s) { s[0] += load_first(p + at, k); });
      centre = static_cast<double>(sum[0]) / size;
    }
    const T from = static_cast<T>(centre);
    T sum[2];
    sum_block<T, 2>(rows, mid * inner, n, sum, [p, from](i64 at, i64 k, vec<T>* s) {
      const vec<T> d = keep_first<T>(load_first(p + at, k) - from, k);
      s[0] += d;
      s[1] = fused(d, d, s[1]);
    });
    const double d = static_cast<double>(sum[0]), away = d / size + (static_cast<double>(from) - centre), all = count + size;
    squares += static_cast<double>(sum[1]) - d * d / size + away * away * (count * size / all);
    centre += away * (size / all);
    count = all;
  });
  *mean = static_cast<T>(centre);
  *variance = static_cast<T>(squares < 0 ? 0.0 : squares / count);
}

// If inner is 1, channels are adjacent: two passes, with vectors along mid.
template <class T>
void row_moments(i64 outer, i64 mid, const T* x, T* mean, T* variance) {
  const T share = T(1) / static_cast<T>(outer);
  fill(mid, T(0), mean);
  for (i64 o = 0; o < outer; ++o) axpy(mid, T(1), x + o * mid, mean);
  scale(mid, share, mean);
  fill(mid, T(0), variance);
  for (i64 o = 0; o < outer; ++o) {
    const T* p = x + o * mid;
#pragma GCC ivdep
    for (i64 m = 0; m < mid; ++m) variance[m] += (p[m] - mean[m]) * (p[m] - mean[m]);
  }
  scale(mid, share, variance);
}

template <class T>
void moments(i64 outer, i64 mid, i64 inner, const T* x, T* mean, T* variance) {
  if (inner == 1) return row_moments(outer, mid, x, mean, variance);
  for (i64 m = 0; m < mid; ++m) channel_moments(outer, mid, inner, m, x, mean + m, variance + m);
}

// w and b may be null, which means 1 and 0.
template <class T>
void norm_table(const norm_geometry& g, i64 first, i64 count, const T* variance, const T* w, const T* b, T* table) {
  T *r = table + g.mid, *slope = table + 2 * g.mid, *shift = table + 3 * g.mid;
  for (i64 m = first; m < first + count; ++m) {
    r[m] = T(1) / square_root(variance[m] + static_cast<T>(g.epsilon));
    slope[m] = w != nullptr ? w[m] * r[m] : r[m];
    shift[m] = b != nullptr ? b[m] : T(0);
  }
}
template <class T>
void norm_table_all(const norm_geometry& g, const T* mean, const T* variance, const T* w, const T* b, T* table) {
  if (mean != table) __builtin_memcpy(table, mean, static_cast<decltype(sizeof(T))>(g.mid) * sizeof(T));
  norm_table(g, 0, g.mid, variance, w, b, table);
}

// Returns true if rows of g are written with non-temporal stores: large ones, so that x stays in
// the caches for the next pass.
template <class T>
inline bool streamed(const norm_geometry& g, const T* to) {
  constexpr i64 large = (i64{1} << 20) / i64{sizeof(T)};
  return g.outer * g.mid * g.inner >= large && g.inner % lanes_of<T> == 0 && aligned(to);
}
template <bool past, class T>
inline void put(T* p, vec<T> v, i64 n) {
  past ? stream(p, v) : store_first(p, v, n);
}

template <bool rectified, bool past, class T>
inline void norm_row_apply(i64 n, const norm_row<T>& c, const T* x, T* y) {
  for (i64 i = 0; i < n; i += lanes_of<T>) {
    const vec<T> v = c.at(load_first(x + i, n - i));
    put<past>(y + i, rectified ? (v < T(0) ? vec<T>{} : v) : v, n - i);
  }
}
template <class T>
inline void norm_row_apply(const norm_geometry& g, bool past, i64 row, const T* x, const T* table, T* y) {
  const norm_row<T> c(table, g.mid, row % g.mid);
  x += row * g.inner, y += row * g.inner;
  if (g.rectified)
    past ? norm_row_apply<true, true>(g.inner, c, x, y) : norm_row_apply<true, false>(g.inner, c, x, y);
  else
    past ? norm_row_apply<false, true>(g.inner, c, x, y) : norm_row_apply<false, false>(g.inner, c, x, y);
}

// For inner = 1: vectors along mid; the values of a channel are in its column.
template <class T>
struct norm_columns {
  const T *mean, *r, *slope, *shift;
  norm_columns(const T* table, i64 mid) : mean(table), r(table + mid), slope(table + 2 * mid), shift(table + 3 * mid) {}
  vec<T> at(vec<T> x, i64 m, i64 n) const {
    return fused(x - load_first(mean + m, n), load_first(slope + m, n), load_first(shift + m, n));
  }
};

template <class T>
void norm_apply(const norm_geometry& g, const T* x, const T* table, T* y) {
  if (g.inner > 1) {  // in memory order
    const bool past = streamed(g, y);
    for (i64 row = 0; row < g.outer * g.mid; ++row) norm_row_apply(g, past, row, x, table, y);
    return end_streams();
  }
  const norm_columns<T> c(table, g.mid);
  for (i64 o = 0; o < g.outer; ++o, x += g.mid, y += g.mid)
    for (i64 m = 0; m < g.mid; m += lanes_of<T>) {
      const i64 n = g.mid - m;
      const vec<T> v = c.at(load_first(x + m, n), m, n);
      store_first(y + m, g.rectified ? (v < T(0) ? vec<T>{} : v) : v, n);
    }
}

template <class T>
void norm_forward(const norm_geometry& g, const T* x, const T* w, const T* b, T* variance, T* table, T* y) {
  if (g.inner == 1) {
    row_moments(g.outer, g.mid, x, table, variance);
    norm_table(g, 0, g.mid, variance, w, b, table);
    return norm_apply(g, x, table, y);
  }
  const bool past = streamed(g, y);
  for (i64 m = 0; m < g.mid; ++m) {
    channel_moments(g.outer, g.mid, g.inner, m, x, table + m, variance + m);
    norm_table(g, m, 1, variance, w, b, table);
    for (i64 o = 0; o < g.outer; ++o) norm_row_apply(g, past, o * g.mid + m, x, table, y);
  }
  end_streams();
}

// sums: of dy, and of dy xhat. If g is rectified, dy counts only where y > 0.
template <bool rectified, class T>
void norm_channel_sums(const norm_geometry& g, i64 m, const T* x, const T* table, const T* dy, T* sums) {
  const norm_row<T> c(table, g.mid, m);
  double total[2] = {0, 0};
  each_norm_block(g.outer, g.mid, g.inner, m, [&](i64 first, i64 rows, i64 n) {
    T sum[2];
    sum_block<T, 2>(rows, g.mid * g.inner, n, sum, [p = x + first, q = dy + first, &c](i64 at, i64 k, vec<T>* s) {
      const vec<T> v = load_first(p + at, k);
      vec<T> d = load_first(q + at, k);
      if (rectified) d = c.at(v) > T(0) ? d : vec<T>{};
      s[0] += d;
      s[1] = fused(d, v - c.mean, s[1]);
    });
    total[0] += static_cast<double>(sum[0]);
    total[1] += static_cast<double>(sum[1]);
  });
  sums[m] = static_cast<T>(total[0]);
  sums[g.mid + m] = static_cast<T>(total[1] * static_cast<double>(c.r));
}

template <class T>
void norm_row_sums(const norm_geometry& g, const T* x, const T* table, const T* dy, T* sums) {
  const norm_columns<T> c(table, g.mid);
  fill(2 * g.mid, T(0), sums);
  T* product = sums + g.mid;
  for (i64 o = 0; o < g.outer; ++o, x += g.mid, dy += g.mid)
    for (i64 m = 0; m < g.mid; m += lanes_of<T>) {
      const i64 n = g.mid - m;
      const vec<T> v = load_first(x + m, n);
      vec<T> d = load_first(dy + m, n);
      if (g.rectified) d = c.at(v, m, n) > T(0) ? d : vec<T>{};
      store_first(sums + m, load_first(sums + m, n) + d, n);
      store_first(product + m, fused(d, v - load_first(c.mean + m, n), load_first(product + m, n)), n);
    }
  for (i64 m = 0; m < g.mid; ++m) product[m] *= c.r[m];
}

template <class T>
inline void norm_sums_of(const norm_geometry& g, i64 m, const T* x, const T* table, const T* dy, T* sums) {
  g.rectified ? norm_channel_sums<true>(g, m, x, table, dy, sums) : norm_channel_sums<false>(g, m, x, table, dy, sums);
}

template <class T>
void norm_sums(const norm_geometry& g, const T* x, const T* table, const T* dy, T* sums) {
  if (g.inner == 1) return norm_row_sums(g, x, table, dy, sums);
  for (i64 m = 0; m < g.mid; ++m) norm_sums_of(g, m, x, table, dy, sums);
}

// dx = slope (dy - sum of dy / count - xhat (sum of dy xhat) / count)
template <bool rectified, bool past, class T>
inline void norm_row_slope(i64 n, const norm_row<T>& c, T along, T down, const T* x, const T* dy, T* dx) {
  for (i64 i = 0; i < n; i += lanes_of<T>) {
    const vec<T> v = load_first(x + i, n - i);
    vec<T> d = load_first(dy + i, n - i);
    if (rectified) d = c.at(v) > T(0) ? d : vec<T>{};
    put<past>(dx + i, fused(d, c.slope - vec<T>{}, fused(v - c.mean, along - vec<T>{}, down - vec<T>{})), n - i);
  }
}

template <class T>
void norm_slope_channel(const norm_geometry& g, i64 m, const T* x, const T* table, const T* sums, double count, const T* dy,
                        T* dx) {
  const norm_row<T> c(table, g.mid, m);
  const T share = static_cast<T>(-1.0 / count);
  const T down = c.slope * (sums[m] * share), along = c.slope * (c.r * (sums[g.mid + m] * share));
  const auto row = g.rectified ? (streamed(g, dx) ? norm_row_slope<true, true, T> : norm_row_slope<true, false, T>)
                               : (streamed(g, dx) ? norm_row_slope<false, true, T> : norm_row_slope<false, false, T>);
  for (i64 o = 0; o < g.outer; ++o) {
    const i64 at = (o * g.mid + m) * g.inner;
    row(g.inner, c, along, down, x + at, dy + at, dx + at);
  }
  end_streams();
}

// `spare`: 2 mid elements.
template <class T>
void norm_slope(const norm_geometry& g, const T* x, const T* table, const T* sums, double count, const T* dy, T* dx, T* spare) {
  if (g.inner > 1) {
    for (i64 m = 0; m < g.mid; ++m) norm_slope_channel(g, m, x, table, sums, count, dy, dx);
    return;
  }
  const norm_columns<T> c(table, g.mid);
  const T share = static_cast<T>(-1.0 / count);
  T *down = spare, *along = spare + g.mid;
  for (i64 m = 0; m < g.mid; ++m) {
    down[m] = c.slope[m] * (sums[m] * share);
    along[m] = c.slope[m] * (c.r[m] * (sums[g.mid + m] * share));
  }
  for (i64 o = 0; o < g.outer; ++o, x += g.mid, dy += g.mid, dx += g.mid)
    for (i64 m = 0; m < g.mid; m += lanes_of<T>) {
      const i64 n = g.mid - m;
      const vec<T> v = load_first(x + m, n);
      vec<T> d = load_first(dy + m, n);
      if (g.rectified) d = c.at(v, m, n) > T(0) ? d : vec<T>{};
      const vec<T> straight = fused(v - load_first(c.mean + m, n), load_first(along + m, n), load_first(down + m, n));
      store_first(dx + m, fused(d, load_first(c.slope + m, n), straight), n);
    }
}

template <class T>
void norm_backward(const norm_geometry& g, const T* x, const T* table, const T* dy, T* sums, T* dx, T* spare) {
  const double count = static_cast<double>(g.outer * g.inner);
  if (g.inner == 1) {
    norm_row_sums(g, x, table, dy, sums);
    return norm_slope(g, x, table, sums, count, dy, dx, spare);
  }
  for (i64 m = 0; m < g.mid; ++m) {
    norm_sums_of(g, m, x, table, dy, sums);
    norm_slope_channel(g, m, x, table, sums, count, dy, dx);
  }
}
