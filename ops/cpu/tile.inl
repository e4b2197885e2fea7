// The inner loops of convolution: products of a packed matrix with a panel of pixels, lanes along the pixels.
// TROUPE_TILE_ROWS suits them to the number of registers.

// The first n lanes set, 0 <= n <= lanes.
template <class T>
inline vec_bits<T> first_lanes(int n) {
  using int_t = typename bits_of<T>::type;
  static const int_t table[2 * 16] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  return load<int_t>(table + 16 - n);
}

template <class T>
void copy_panel(i64 rows, const T* from, i64 stride, T* panel) {
  for (i64 r = 0; r < rows; ++r, from += stride, panel += panel_of<T>) {
    store(panel, load(from));
    store(panel + lanes_of<T>, load(from + lanes_of<T>));
  }
}

template <class T>
void gather_panel(const run_list& runs, i64 k_count, const std::int32_t* k_offset, const T* stage, T* panel) {
  constexpr int lanes = lanes_of<T>;
  int filled = 0;
  bool short_runs = true;
  for (int r = 0; r < runs.count; ++r) {
    filled += runs.length[r];
    short_runs = short_runs && runs.length[r] <= lanes;
  }
  for (i64 k = 0; k < k_count; ++k, panel += panel_of<T>) {
    const T* from = stage + k_offset[k];
    // Whole vectors: what a run writes too much, the next run, the next k or the padding below overwrites.
    if (runs.count == 1 && filled == panel_of<T>) {
      store(panel, load(from + runs.offset[0]));
      store(panel + lanes, load(from + runs.offset[0] + lanes));
      continue;
    }
    if (short_runs) {
      for (int r = 0; r < runs.count; ++r) store(panel + runs.column[r], load(from + runs.offset[r]));
    } else {
      for (int r = 0; r < runs.count; ++r)
        for (int i = 0; i < runs.length[r]; i += lanes) store(panel + runs.column[r] + i, load(from + runs.offset[r] + i));
    }
    for (int i = filled; i < panel_of<T>; ++i) panel[i] = T(0);
  }
}

// One run at a time over all k: neighbouring k lie in different planes, so no load waits for the store before it.
template <class T>
void scatter_panel(const run_list& runs, i64 k_count, const std::int32_t* k_offset, const T* panel, T* stage) {
  constexpr int lanes = lanes_of<T>;
  for (int r = 0; r < runs.count; ++r) {
    for (int i = 0; i < runs.length[r]; i += lanes) {
      T* to = stage + runs.offset[r] + i;
      const T* from = panel + runs.column[r] + i;
      const int left = runs.length[r] - i;
      if (left >= lanes) {
        for (i64 k = 0; k < k_count; ++k) store(to + k_offset[k], load(to + k_offset[k]) + load(from + k * panel_of<T>));
        continue;
      }
      const vec_bits<T> mask = first_lanes<T>(left);
      for (i64 k = 0; k < k_count; ++k) {
        const vec_bits<T> kept = (vec_bits<T>)load(from + k * panel_of<T>) & mask;
        store(to + k_offset[k], load(to + k_offset[k]) + (vec<T>)kept);
      }
    }
  }
}

template <class T, int R>
void tile_rows(i64 k_count, const T* a, const T* panel, const T* bias, T* c, i64 ldc) {
  constexpr int lanes = lanes_of<T>;
  vec<T> left[R], right[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) left[r] = right[r] = vec<T>{};
  for (i64 k = 0; k < k_count; ++k, a += R, panel += panel_of<T>) {
    const vec<T> p = load(panel), q = load(panel + lanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const vec<T> w = a[r] - vec<T>{};
      left[r] = fused(w, p, left[r]);
      right[r] = fused(w, q, right[r]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const T b = bias != nullptr ? bias[r] : T(0);
    store(c + r * ldc, left[r] + b);
    store(c + r * ldc + lanes, right[r] + b);
  }
}

template <class T, int... R>
struct tile_table {
  static constexpr void (*row[])(i64, const T*, const T*, const T*, T*, i64) = {tile_rows<T, R>...};
};

template <class T>
void tile(int rows, i64 k_count, const T* a, const T* panel, const T* bias, T* c, i64 ldc) {
#if TROUPE_TILE_ROWS == 14
  using table = tile_table<T, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
#else
  using table = tile_table<T, 1, 2, 3, 4, 5, 6>;
#endif
  table::row[rows - 1](k_count, a, panel, bias, c, ldc);
}

template <class T>
inline T sum_of(vec<T> v) {
  T lane[lanes_of<T>];
  store(lane, v);
#pragma GCC unroll 4
  for (int width = lanes_of<T> / 2; width > 0; width /= 2)
#pragma GCC unroll 8
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  return lane[0];
}

template <class T, int R, int C>
void dot_tile(i64 panels, const T* a, i64 a_stride, const T* b, i64 b_stride, T* c, i64 ldc) {
  constexpr int lanes = lanes_of<T>;
  vec<T> sum[R][C];
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 6
    for (int j = 0; j < C; ++j) sum[i][j] = vec<T>{};
  for (i64 p = 0; p < panels; ++p, a += a_stride, b += b_stride) {
#pragma GCC unroll 1
    for (int half = 0; half < panel_of<T>; half += lanes) {
      vec<T> right[C];
#pragma GCC unroll 6
      for (int j = 0; j < C; ++j) right[j] = load(b + j * panel_of<T> + half);
#pragma GCC unroll 4
      for (int i = 0; i < R; ++i) {
        const vec<T> left = load(a + i * panel_of<T> + half);
#pragma GCC unroll 6
        for (int j = 0; j < C; ++j) sum[i][j] = fused(left, right[j], sum[i][j]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 6
    for (int j = 0; j < C; ++j) c[i * ldc + j] += sum_of<T>(sum[i][j]);
}

template <class T, int R>
void dot_rows(int columns, i64 panels, const T* a, i64 a_stride, const T* b, i64 b_stride, T* c, i64 ldc) {
  switch (columns) {
    case 1: return dot_tile<T, R, 1>(panels, a, a_stride, b, b_stride, c, ldc);
    case 2: return dot_tile<T, R, 2>(panels, a, a_stride, b, b_stride, c, ldc);
    case 3: return dot_tile<T, R, 3>(panels, a, a_stride, b, b_stride, c, ldc);
    case 4: return dot_tile<T, R, 4>(panels, a, a_stride, b, b_stride, c, ldc);
    case 5: return dot_tile<T, R, 5>(panels, a, a_stride, b, b_stride, c, ldc);
    default: return dot_tile<T, R, 6>(panels, a, a_stride, b, b_stride, c, ldc);
  }
}

template <class T>
void dot(int rows, int columns, i64 panels, const T* a, i64 a_stride, const T* b, i64 b_stride, T* c, i64 ldc) {
  switch (rows) {
    case 1: return dot_rows<T, 1>(columns, panels, a, a_stride, b, b_stride, c, ldc);
    case 2: return dot_rows<T, 2>(columns, panels, a, a_stride, b, b_stride, c, ldc);
    case 3: return dot_rows<T, 3>(columns, panels, a, a_stride, b, b_stride, c, ldc);
    default: return dot_rows<T, 4>(columns, panels, a, a_stride, b, b_stride, c, ldc);
  }
}
