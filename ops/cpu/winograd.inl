// Winograd's minimal filtering F(M x M, R x R): M = 2 with R = 3 or 5, M = 4 with R = 3 (Lavin and
// Gray 2016). A patch d of side N = M + R - 1 gives M x M outputs
//   y = A^T [(G g G^T) . (B^T d B)] A,
// one dimension after the other (winograd_transforms.inl). Vectors run along tiles, whose patches
// are M pixels apart. Only the first `tiles` columns are written.

// Stores B^T v for rows v = d B, per tile.
template <class T, int N>
inline void winograd_store(const vec<T> (&v)[N][N], T* to, i64 apart, i64 tiles) {
#pragma GCC unroll 6
  for (int j = 0; j < N; ++j) {
    vec<T> d[N], u[N];
#pragma GCC unroll 6
    for (int i = 0; i < N; ++i) d[i] = v[i][j];
    winograd_patch<T>(d, u);
#pragma GCC unroll 6
    for (int i = 0; i < N; ++i) store_first(to + (N * i + j) * apart, u[i], tiles);
  }
}

// Every M-th pixel from p, p + 1, ... on.
template <class T, int M, class Load>
inline void winograd_phases(Load at, vec<T> (&v)[M]) {
  constexpr int lanes = lanes_of<T>;
  vec_bits<T> even, odd;
  for (int i = 0; i < lanes; ++i) even[i] = 2 * i, odd[i] = 2 * i + 1;
  if constexpr (M == 2) {
    const vec<T> a = at(0), b = at(lanes);
    v[0] = __builtin_shuffle(a, b, even), v[1] = __builtin_shuffle(a, b, odd);
  } else {
    const vec<T> a = at(0), b = at(lanes), c = at(2 * lanes), d = at(3 * lanes);
    const vec<T> ab = __builtin_shuffle(a, b, even), cd = __builtin_shuffle(c, d, even);
    v[0] = __builtin_shuffle(ab, cd, even), v[2] = __builtin_shuffle(ab, cd, odd);
    const vec<T> ab1 = __builtin_shuffle(a, b, odd), cd1 = __builtin_shuffle(c, d, odd);
    v[1] = __builtin_shuffle(ab1, cd1, even), v[3] = __builtin_shuffle(ab1, cd1, odd);
  }
}

// Splits `rows` rows of pixels, `step` apart, into M sets of every M-th column, `across` elements
// per row, the sets `gap` apart. With Shifts > 1, each set also shifted by up to Shifts - 1
// columns. Pixels beyond `width` are zero. Writes whole vectors, row after row, so the last one
// leaves some elements after its end.
template <class T, int M, int Shifts>
void winograd_split(i64 rows, i64 step, i64 width, i64 across, const T* from, T* to, i64 gap) {
  for (i64 r = 0; r < rows; ++r, from += step, to += across)
    for (i64 t = 0; t < across; t += lanes_of<T>)
#pragma GCC unroll 3
      for (int s = 0; s < Shifts; ++s) {
        vec<T> phase[M];
        const T* p = from + M * (t + s);
        const i64 n = width - M * (t + s);
        winograd_phases<T, M>([p, n](int k) { return n > k ? load_first(p + k, n - k) : vec<T>{}; }, phase);
#pragma GCC unroll 4
        for (int k = 0; k < M; ++k) store(to + (k * Shifts + s) * gap + t, phase[k]);
      }
}

// Number of neighbouring tiles that a patch extends into.
template <int M, int R>
constexpr int winograd_reach = (M + R - 2) / M;

// Transforms consecutive tiles of an image, across rows, from pixels split with all shifts: rows i
// = 0 to M - 1 of each tile.
template <class T, int M, int R>
void winograd_input(i64 tiles, const T* p, i64 across, i64 gap, T* to, i64 apart) {
  constexpr int N = M + R - 1, shifts = winograd_reach<M, R> + 1;
  for (i64 t = 0; t < tiles; t += lanes_of<T>) {
    vec<T> v[N][N];  // rows of d B
#pragma GCC unroll 6
    for (int i = 0; i < N; ++i) {
      vec<T> d[N];
#pragma GCC unroll 6
      for (int j = 0; j < N; ++j) d[j] = load(p + ((i % M * M + j % M) * shifts + j / M) * gap + i / M * across + t);
      winograd_patch<T>(d, v[i]);
    }
    winograd_store<T, N>(v, to + t, apart, tiles - t);
  }
}

// The same for padding (R - 1) / 2, also across images: pixels of tiles outside the image are zero.
// p: pixels split without shifts into M x M sets, `gap` apart: rows i = 0 to M - 1 of each tile, in
// M sets of every M-th column.
template <class T, int M, int R>
void winograd_split_input(i64 tiles, const tile_place& first, const T* p, i64 gap, T* to, i64 apart) {
  constexpr int lanes = lanes_of<T>, N = M + R - 1, pad = (R - 1) / 2;
  using bits = typename bits_of<T>::type;
  vec_bits<T> column, row;
  tile_place at = first;
  for (int i = 0; i < lanes; ++i) {
    column[i] = static_cast<bits>(at.column), row[i] = static_cast<bits>(at.row);
    if (++at.column < at.across) continue;
    at.column = 0;
    if (++at.row == at.down) at.row = 0;
  }
  const bits across = static_cast<bits>(at.across), down = static_cast<bits>(at.down);
  const bits columns_on = static_cast<bits>(lanes % at.across), rows_on = static_cast<bits>(lanes / at.across % at.down);
  for (i64 t = 0; t < tiles; t += lanes) {
    vec<T> v[N][N];  // rows of d B
#pragma GCC unroll 6
    for (int i = 0; i < N; ++i) {
      const int above = i < pad ? -1 : i >= pad + M ? 1 : 0;  // vertical neighbour that holds the row: -1, 0 or 1
      const T* pixels = p + (i - pad - above * M) * M * gap + above * at.across + t;
      vec<T> d[N];
#pragma GCC unroll 6
      for (int j = 0; j < N; ++j) {
        const int beside = j < pad ? -1 : j >= pad + M ? 1 : 0;
        d[j] = load(pixels + (j - pad - beside * M) * gap + beside);
        if (beside != 0) d[j] = (beside < 0 ? column != 0 : column != across - 1) ? d[j] : vec<T>{};
      }
      winograd_patch<T>(d, v[i]);
      if (above == 0) continue;
#pragma GCC unroll 6
      for (int j = 0; j < N; ++j) v[i][j] = (above < 0 ? row != 0 : row != down - 1) ? v[i][j] : vec<T>{};
    }
    winograd_store<T, N>(v, to + t, apart, tiles - t);
    column += columns_on, row += rows_on;
    row = column >= across ? row + 1 : row;
    column = column >= across ? column - across : column;
    row = row >= down ? row - down : row;
  }
}

// A d A^T for M x M pixels d; p as above.
template <class T, int M, int R>
void winograd_gradient(i64 tiles, const T* p, i64 gap, T* to, i64 apart) {
  constexpr int N = M + R - 1;
  for (i64 t = 0; t < tiles; t += lanes_of<T>) {
    vec<T> v[M][N];  // rows of d A^T
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) {
      vec<T> d[M];
#pragma GCC unroll 4
      for (int j = 0; j < M; ++j) d[j] = load(p + (i * M + j) * gap + t);
      winograd_spread<T>(d, v[i]);
    }
#pragma GCC unroll 6
    for (int j = 0; j < N; ++j) {
      vec<T> d[M], u[N];
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) d[i] = v[i][j];
      winograd_spread<T>(d, u);
#pragma GCC unroll 6
      for (int i = 0; i < N; ++i) store_first(to + (N * i + j) * apart + t, u[i], tiles - t);
    }
  }
}

// Stores v[0][0] v[1][0] ... v[M - 1][0] v[0][1] ...
template <class T, int M>
inline void winograd_store_phases(const vec<T> (&v)[M], T* to) {
  constexpr int lanes = lanes_of<T>;
  vec_bits<T> low, high;
  for (int i = 0; i < lanes; ++i) {
    low[i] = i / 2 + (i % 2) * lanes;
    high[i] = low[i] + lanes / 2;
  }
  if constexpr (M == 2) {
    store(to, __builtin_shuffle(v[0], v[1], low));
    store(to + lanes, __builtin_shuffle(v[0], v[1], high));
  } else {
    const vec<T> even = __builtin_shuffle(v[0], v[2], low), odd = __builtin_shuffle(v[1], v[3], low);
    store(to, __builtin_shuffle(even, odd, low));
    store(to + lanes, __builtin_shuffle(even, odd, high));
    const vec<T> even2 = __builtin_shuffle(v[0], v[2], high), odd2 = __builtin_shuffle(v[1], v[3], high);
    store(to + 2 * lanes, __builtin_shuffle(even2, odd2, low));
    store(to + 3 * lanes, __builtin_shuffle(even2, odd2, high));
  }
}

// Writes one panel of results to its pieces of pixel rows.
template <class T, int M, int R>
void winograd_output(const T* m, i64 apart, T bias, const tile_piece* pieces, int count, i64 stride, T* y) {
  constexpr int lanes = lanes_of<T>, width = M * panel_of<T>, N = M + R - 1;
  T rows[M * width];
#pragma GCC unroll 2
  for (int half = 0; half < panel_of<T>; half += lanes) {
    vec<T> v[M][N];  // A^T m
#pragma GCC unroll 6
    for (int j = 0; j < N; ++j) {
      vec<T> u[N], d[M];
#pragma GCC unroll 6
      for (int i = 0; i < N; ++i) u[i] = load(m + (N * i + j) * apart + half);
      winograd_gather<T>(u, d);
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) v[i][j] = d[i];
    }
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) {
      vec<T> d[M];
      winograd_gather<T>(v[i], d);
#pragma GCC unroll 4
      for (int j = 0; j < M; ++j) d[j] += bias;
      winograd_store_phases<T, M>(d, rows + i * width + M * half);
    }
  }
  for (int p = 0; p < count; ++p) {
    const tile_piece& piece = pieces[p];
    for (int i = 0; i < piece.rows; ++i) {
      const T* from = rows + i * width + piece.column;
      T* to = y + piece.at + i * stride;
      if (piece.length == lanes / 2)  // only the first half of a vector is valid
        __builtin_memcpy(to, from, lanes / 2 * sizeof(T));
      else
        for (int at = 0; at < piece.length; at += lanes)
          store_first(to + at, load_first(from + at, piece.length - at), piece.length - at);
    }
  }
}

// Writes one panel of results, B m B^T, to its pieces of the grid of tiles: element (i, j) at (N i
// + j) * plane.
template <class T, int M, int R>
void winograd_patches(const T* m, i64 apart, const tile_piece* pieces, int count, T* to, i64 plane) {
  constexpr int lanes = lanes_of<T>, width = panel_of<T>, N = M + R - 1;
  T elements[N * N * width];
#pragma GCC unroll 2
  for (int half = 0; half < width; half += lanes) {
    vec<T> v[N][N];  // B m
#pragma GCC unroll 6
    for (int j = 0; j < N; ++j) {
      vec<T> u[N], d[N];
#pragma GCC unroll 6
      for (int i = 0; i < N; ++i) u[i] = load(m + (N * i + j) * apart + half);
      winograd_unpatch<T>(u, d);
#pragma GCC unroll 6
      for (int i = 0; i < N; ++i) v[i][j] = d[i];
    }
#pragma GCC unroll 6
    for (int i = 0; i < N; ++i) {
      vec<T> d[N];
      winograd_unpatch<T>(v[i], d);
#pragma GCC unroll 6
      for (int j = 0; j < N; ++j) store(elements + (N * i + j) * width + half, d[j]);
    }
  }
  for (int p = 0; p < count; ++p)
    for (int at = 0; at < pieces[p].length; at += lanes)
      for (int f = 0; f < N * N; ++f)
        store_first(to + f * plane + pieces[p].at + at,
                    load_first(elements + f * width + pieces[p].column + at, pieces[p].length - at), pieces[p].length - at);
}

// Sums overlapping patches for n places of a grid with rows of `pitch` places: pixel row i of every
// place's M at to + i * gap. Before the patches, and between images of the grid, there are
// winograd_reach rows and columns of zeros.
template <class T, int M, int R>
void winograd_overlap(i64 n, const T* patches, i64 plane, i64 pitch, T* to, i64 gap) {
  constexpr int N = M + R - 1;
  for (i64 at = 0; at < n; at += lanes_of<T>)
    for (int i = 0; i < M; ++i) {
      vec<T> v[M];
#pragma GCC unroll 4
      for (int j = 0; j < M; ++j) {
        v[j] = vec<T>{};
        for (int y = i, up = 0; y < N; y += M, ++up)
          for (int x = j, left = 0; x < N; x += M, ++left) v[j] += load(patches + (N * y + x) * plane + at - up * pitch - left);
      }
      winograd_store_phases<T, M>(v, to + i * gap + M * at);
    }
}

// G g G^T of adjacent kernels g.
template <class T, int M, int R>
void winograd_weights(i64 n, const T* taps, i64 stride, T* to, i64 apart) {
  constexpr int lanes = lanes_of<T>, N = M + R - 1;
  for (i64 at = 0; at < n; at += lanes) {
    vec<T> v[N][R];  // G g
#pragma GCC unroll 5
    for (int j = 0; j < R; ++j) {
      vec<T> g[R], u[N];
#pragma GCC unroll 5
      for (int i = 0; i < R; ++i) g[i] = load_first(taps + (R * i + j) * stride + at, n - at);
      winograd_kernel<T>(g, u);
#pragma GCC unroll 6
      for (int i = 0; i < N; ++i) v[i][j] = u[i];
    }
#pragma GCC unroll 6
    for (int i = 0; i < N; ++i) {
      vec<T> u[N];
      winograd_kernel<T>(v[i], u);
#pragma GCC unroll 6
      for (int j = 0; j < N; ++j) store_first(to + (N * i + j) * apart + at, u[j], n - at);
    }
  }
}

// G^T u G.
template <class T, int M, int R>
void winograd_weights_gradient(i64 n, const T* u, i64 apart, T* taps, i64 stride) {
  constexpr int lanes = lanes_of<T>, N = M + R - 1;
  for (i64 at = 0; at < n; at += lanes) {
    vec<T> v[R][N];  // G^T u
#pragma GCC unroll 6
    for (int j = 0; j < N; ++j) {
      vec<T> m[N], g[R];
#pragma GCC unroll 6
      for (int i = 0; i < N; ++i) m[i] = load_first(u + (N * i + j) * apart + at, n - at);
      winograd_taps<T>(m, g);
#pragma GCC unroll 5
      for (int i = 0; i < R; ++i) v[i][j] = g[i];
    }
#pragma GCC unroll 5
    for (int i = 0; i < R; ++i) {
      vec<T> g[R];
      winograd_taps<T>(v[i], g);
#pragma GCC unroll 5
      for (int j = 0; j < R; ++j) store_first(taps + (R * i + j) * stride + at, g[j], n - at);
    }
  }
}

template <class T, int M, int R>
constexpr winograd_form<T> winograd_of() {
  return {M,
          R,
          winograd_split<T, M, 1>,
          winograd_split<T, M, winograd_reach<M, R> + 1>,
          winograd_input<T, M, R>,
          winograd_split_input<T, M, R>,
          winograd_gradient<T, M, R>,
          winograd_output<T, M, R>,
          winograd_patches<T, M, R>,
          winograd_overlap<T, M, R>,
          winograd_weights<T, M, R>,
          winograd_weights_gradient<T, M, R>};
}
