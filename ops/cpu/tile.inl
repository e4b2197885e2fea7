// Inner loops of convolution: products of a packed matrix and a panel of pixels, with vectors along
// the pixels. TROUPE_TILE_ROWS matches the number of registers.

// Mask of the first n lanes, 0 <= n <= lanes.
template <class T>
inline vec_bits<T> first_lanes(int n) {
  using int_t = typename bits_of<T>::type;
  static const int_t table[2 * 16] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  return load<int_t>(table + 16 - n);
}

template <class T>
void take_strided(i64 n, i64 stride, const T* from, T* to) {
  i64 i = 0;
  if (stride == 2 || stride == 4) {
    constexpr int lanes = lanes_of<T>;
    vec_bits<T> even;
    for (int l = 0; l < lanes; ++l) even[l] = 2 * l;
    const auto pair = [&](const T* p) { return __builtin_shuffle(load(p), load(p + lanes), even); };
    // Whole vectors, but none beyond the last required element.
    for (; stride * (i + lanes) <= stride * (n - 1) + 1; i += lanes)
      store(to + i, stride == 2 ? pair(from + 2 * i) : __builtin_shuffle(pair(from + 4 * i), pair(from + 4 * i + 2 * lanes), even));
  }
  for (; i < n; ++i) to[i] = from[i * stride];
}
template <class T>
void put_strided(i64 n, i64 stride, const T* from, T* to) {
  for (i64 i = 0; i < n; ++i) to[i * stride] = from[i];
}

template <class T>
void copy_rows(i64 rows, i64 n, const T* from, i64 from_stride, T* to, i64 to_stride) {
  constexpr int lanes = lanes_of<T>;
  for (i64 r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    i64 i = 0;
    for (; i + lanes <= n; i += lanes) store(to + i, load(from + i));
    if (i < n) store_first(to + i, load_first(from + i, n - i), n - i);
  }
}

template <class T>
void copy_panel(i64 rows, const T* from, i64 stride, T* panel) {
  for (i64 r = 0; r < rows; ++r, from += stride, panel += panel_of<T>) {
    store(panel, load(from));
    store(panel + lanes_of<T>, load(from + lanes_of<T>));
  }
}

// Writes whole vectors: excess elements of a run are overwritten by the next run, the next k or the
// padding after the last pixel. R pieces of at most one vector each, or any runs for R = 0.
template <int R, class T>
inline void gather_rows(const run_list& runs, i64 k_count, const std::int32_t* k_offset, const T* stage, T* panel) {
  constexpr int lanes = lanes_of<T>;
  const int filled = runs.column[runs.count - 1] + runs.length[runs.count - 1];
  i64 offset[R > 0 ? R : 1];
  int column[R > 0 ? R : 1];
  for (int r = 0; r < R; ++r) offset[r] = runs.offset[r], column[r] = runs.column[r];
  for (i64 k = 0; k < k_count; ++k, panel += panel_of<T>) {
    const T* from = stage + k_offset[k];
    if constexpr (R > 0) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) store(panel + column[r], load(from + offset[r]));
    } else {
      for (int r = 0; r < runs.count; ++r)
        for (int i = 0; i < runs.length[r]; i += lanes) store(panel + runs.column[r] + i, load(from + runs.offset[r] + i));
    }
    for (int i = filled; i < panel_of<T>; ++i) panel[i] = T(0);
  }
}

template <class T>
void gather_panel(const run_list& runs, i64 k_count, const std::int32_t* k_offset, const T* stage, T* panel) {
  if (runs.count == 1 && runs.length[0] == panel_of<T>) {
    run_list halves = {2, {}, {}, {}};
    halves.column[1] = halves.length[0] = halves.length[1] = lanes_of<T>;
    halves.offset[0] = runs.offset[0];
    halves.offset[1] = runs.offset[0] + lanes_of<T>;
    return gather_rows<2>(halves, k_count, k_offset, stage, panel);
  }
  bool short_runs = true;
  for (int r = 0; r < runs.count; ++r) short_runs = short_runs && runs.length[r] <= lanes_of<T>;
  if (short_runs && runs.count == 2) return gather_rows<2>(runs, k_count, k_offset, stage, panel);
  if (short_runs && runs.count == 3) return gather_rows<3>(runs, k_count, k_offset, stage, panel);
  if (short_runs && runs.count == 4) return gather_rows<4>(runs, k_count, k_offset, stage, panel);
  gather_rows<0>(runs, k_count, k_offset, stage, panel);
}

// One run at a time over all k: consecutive k are in different planes, so no load depends on the
// preceding store.
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

// Replaces N vectors by the sums of their lanes, packed into ceil(N / lanes) vectors. Each round
// adds the two halves of every segment of two vectors and packs the results into one vector; a
// segment starts as a vector and ends as a lane.
template <class T, int N, int Segment>
inline void sum_lanes(vec<T>* v) {
  constexpr int lanes = lanes_of<T>, half = Segment / 2;
  if constexpr (Segment > 1) {
    vec_bits<T> first, second;
    for (int i = 0; i < lanes; ++i) first[i] = i / half * Segment + i % half, second[i] = first[i] + half;
#pragma GCC unroll 16
    for (int i = 0; i < (N + 1) / 2; ++i) {
      const vec<T> a = v[2 * i], b = 2 * i + 1 < N ? v[2 * i + 1] : vec<T>{};
      v[i] = __builtin_shuffle(a, b, first) + __builtin_shuffle(a, b, second);
    }
    sum_lanes<T, (N + 1) / 2, half>(v);
  }
}

template <class T, int R, int C>
void dot_tile(i64 panels, const T* a, i64 a_stride, const T* b, i64 b_stride, T* c, i64 ldc) {
  constexpr int lanes = lanes_of<T>;
  vec<T> sum[R * C];
#pragma GCC unroll 24
  for (int i = 0; i < R * C; ++i) sum[i] = vec<T>{};
  for (i64 p = 0; p < panels; ++p, a += a_stride, b += b_stride) {
#pragma GCC unroll 2
    for (int half = 0; half < panel_of<T>; half += lanes) {
      vec<T> right[C];
#pragma GCC unroll 6
      for (int j = 0; j < C; ++j) right[j] = load(b + j * panel_of<T> + half);
#pragma GCC unroll 4
      for (int i = 0; i < R; ++i) {
        const vec<T> left = load(a + i * panel_of<T> + half);
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
