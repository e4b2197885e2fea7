// Inner loops of direct convolution. Vectors hold output features, and elements of the staged image
// are broadcast, so nothing is gathered. Written for 32 registers of 512 bits; correct but slow on
// other machines.

// to[c][r] = from[r][c]
template <class T>
void transpose_matrix(i64 rows, i64 columns, const T* from, i64 from_stride, T* to, i64 to_stride) {
  constexpr int lanes = lanes_of<T>;
  for (i64 r = 0; r < rows; r += lanes)
    for (i64 c = 0; c < columns; c += lanes) {
      const i64 height = smallest(lanes, rows - r), width = smallest(lanes, columns - c);
      vec<T> v[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) v[i] = i < height ? load_first(from + (r + i) * from_stride + c, width) : vec<T>{};
      transpose<T>(v);
      for (int i = 0; i < width; ++i) store_first(to + (c + i) * to_stride + r, v[i], height);
    }
}

// Computes P adjacent pixels of an output row times V vectors of features.
template <class T, int V, int P>
void direct_strip(const direct_sum<T>& s, const T* stage, T* partial, T* y) {
  constexpr int lanes = lanes_of<T>;
  vec<T> sum[V * P];
  if (s.first) {
#pragma GCC unroll 28
    for (int i = 0; i < V * P; ++i) sum[i] = vec<T>{};
  } else {
#pragma GCC unroll 28
    for (int i = 0; i < V * P; ++i) sum[i] = load(partial + i * lanes);
  }
  const T* w = s.w;
  for (i64 k = 0; k < s.k_count; ++k, w += V * lanes) {
    const T* x = stage + s.k_offset[k];
    vec<T> weight[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) weight[v] = load(w + v * lanes);
#pragma GCC unroll 14
    for (int p = 0; p < P; ++p) {
      const vec<T> pixel = x[p] - vec<T>{};
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[p * V + v] = fused(weight[v], pixel, sum[p * V + v]);
    }
  }
  if (!s.last) {
#pragma GCC unroll 28
    for (int i = 0; i < V * P; ++i) store(partial + i * lanes, sum[i]);
    return;
  }
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) {
    const vec<T> b = load(s.bias + v * lanes);
    const i64 filled = smallest(lanes, s.features - v * lanes);
#pragma GCC unroll 4
    for (int first = 0; first < P; first += lanes) {
      vec<T> row[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) row[i] = first + i < P ? sum[(first + i < P ? first + i : 0) * V + v] + b : vec<T>{};
      transpose<T>(row);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        if (i < filled) store_first(y + (v * lanes + i) * s.plane + first, row[i], P - first);
    }
  }
}

template <class T, int V, int... P>
struct strip_table {
  static constexpr void (*row[])(const direct_sum<T>&, const T*, T*, T*) = {direct_strip<T, V, P>...};
};

template <class T>
void direct(int vectors, int pixels, const direct_sum<T>& s, const T* stage, T* partial, T* y) {
#if TROUPE_TILE_ROWS == 14
  using one = strip_table<T, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
  using two = strip_table<T, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
#else
  using one = strip_table<T, 1, 1, 2, 3, 4, 5, 6>;
  using two = strip_table<T, 2, 1, 2, 3, 4, 5, 6>;
#endif
  (vectors == 1 ? one::row : two::row)[pixels - 1](s, stage, partial, y);
}

// Gradient of the weights: sums over all pixels of the block of V vectors of dy times N adjacent
// elements of the stage, for each of G runs. dy [image][row][pixel][V x lanes]. Adds to to[g] [N][V
// x lanes].
template <class T, int V, int N, int G>
void direct_runs(const direct_block& b, const T* dy, const T* stage, const i64* offset, T* const* to) {
  constexpr int lanes = lanes_of<T>;
  vec<T> sum[V * N * G];
#pragma GCC unroll 28
  for (int i = 0; i < V * N * G; ++i) sum[i] = vec<T>{};
  for (i64 image = 0; image < b.images; ++image)
    for (i64 row = 0; row < b.rows; ++row) {
      const T* x[G];
#pragma GCC unroll 8
      for (int g = 0; g < G; ++g) x[g] = stage + image * b.image_step + row * b.row_step + offset[g];
      for (i64 p = 0; p < b.width; ++p, dy += V * lanes) {
        vec<T> d[V];
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) d[v] = load(dy + v * lanes);
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g)
#pragma GCC unroll 5
          for (int n = 0; n < N; ++n) {
            const vec<T> pixel = x[g][p + n] - vec<T>{};
#pragma GCC unroll 2
            for (int v = 0; v < V; ++v) sum[(g * N + n) * V + v] = fused(d[v], pixel, sum[(g * N + n) * V + v]);
          }
      }
    }
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 10
    for (int i = 0; i < N * V; ++i) store(to[g] + i * lanes, load(to[g] + i * lanes) + sum[g * N * V + i]);
}

template <class T>
void direct_weights(int vectors, int taps, const direct_block& b, const T* dy, const T* stage, const i64* offset, T* const* to) {
  using f = void (*)(const direct_block&, const T*, const T*, const i64*, T* const*);
  static constexpr f one[] = {direct_runs<T, 1, 1, direct_groups(1, 1)>, direct_runs<T, 1, 2, direct_groups(1, 2)>,
                              direct_runs<T, 1, 3, direct_groups(1, 3)>, direct_runs<T, 1, 4, direct_groups(1, 4)>,
                              direct_runs<T, 1, 5, direct_groups(1, 5)>};
  static constexpr f two[] = {direct_runs<T, 2, 1, direct_groups(2, 1)>, direct_runs<T, 2, 2, direct_groups(2, 2)>,
                              direct_runs<T, 2, 3, direct_groups(2, 3)>, direct_runs<T, 2, 4, direct_groups(2, 4)>,
                              direct_runs<T, 2, 5, direct_groups(2, 5)>};
  (vectors == 1 ? one : two)[taps - 1](b, dy, stage, offset, to);
}
