// Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray 2016): a 4x4 patch d gives 2x2 outputs y = A^T [(G g G^T) . (B^T d B)] A.
//   B^T = 1 0 -1 0, 0 1 1 0, 0 -1 1 0, 0 1 0 -1      A^T = 1 1 1 0, 0 1 -1 -1
// Lanes along tiles, whose patches are 2 pixels apart. Nothing but the first `tiles` columns is written.

// B^T v of rows v = d B, tile by tile.
template <class T>
inline void winograd_store(const vec<T> (&v)[4][4], T* to, i64 apart, i64 tiles) {
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const vec<T> u[4] = {v[0][j] - v[2][j], v[1][j] + v[2][j], v[2][j] - v[1][j], v[1][j] - v[3][j]};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) store_first(to + (4 * i + j) * apart, u[i], tiles);
  }
}

// The tiles of one row of tiles.
template <class T>
void winograd_input(i64 tiles, const T* rows, i64 stride, T* to, i64 apart) {
  constexpr int lanes = lanes_of<T>;
  for (i64 t = 0; t < tiles; t += lanes) {
    vec<T> v[4][4];  // rows of d B
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const pixel_pairs<T> here(rows + i * stride + 2 * t), next(rows + i * stride + 2 * t + 2);
      v[i][0] = here.even - next.even;
      v[i][1] = here.odd + next.even;
      v[i][2] = next.even - here.odd;
      v[i][3] = here.odd - next.odd;
    }
    winograd_store<T>(v, to + t, apart, tiles - t);
  }
}

// `rows` rows of pixels, `step` apart, as their even and odd columns, ceil(width / 2) of each to a row. Whole vectors are written, row after
// row, so that the last one leaves some elements behind its end.
template <class T>
void winograd_split(i64 rows, i64 step, i64 width, const T* from, T* even, T* odd) {
  constexpr int lanes = lanes_of<T>;
  vec_bits<T> e, o;
  for (int i = 0; i < lanes; ++i) e[i] = 2 * i, o[i] = 2 * i + 1;
  const i64 across = (width + 1) / 2;
  for (i64 r = 0; r < rows; ++r, from += step, even += across, odd += across)
    for (i64 t = 0; t < across; t += lanes) {
      const i64 n = width - 2 * t;
      const vec<T> a = load_first(from + 2 * t, n), b = n > lanes ? load_first(from + 2 * t + lanes, n - lanes) : vec<T>{};
      store(even + t, __builtin_shuffle(a, b, e));
      store(odd + t, __builtin_shuffle(a, b, o));
    }
}

// winograd_input of kernels with padding 1, for any tiles of an image, `column` being the place of the first one in its row of `across`.
// p: split pixels, `gap` apart: even and odd columns of the odd rows of pixels from above the first tile on, then those of the even rows.
template <class T>
void winograd_split_input(i64 tiles, i64 column, i64 across, const T* p, i64 gap, T* to, i64 apart) {
  constexpr int lanes = lanes_of<T>;
  using bits = typename bits_of<T>::type;
  vec_bits<T> at;  // in the row of tiles
  for (int i = 0; i < lanes; ++i) {
    at[i] = static_cast<bits>(column);
    if (++column == across) column = 0;
  }
  const bits end = static_cast<bits>(across), step = static_cast<bits>(lanes % across);
  for (i64 t = 0; t < tiles; t += lanes) {
    vec<T> v[4][4];  // rows of d B
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const T* even = p + i % 2 * 2 * gap + i / 2 * across + t;
      const T* odd = even + gap;
      const vec<T> one = load(even), two = load(odd);
      const vec<T> zero = at != 0 ? load(odd - 1) : vec<T>{}, three = at != end - 1 ? load(even + 1) : vec<T>{};
      v[i][0] = zero - two;
      v[i][1] = one + two;
      v[i][2] = two - one;
      v[i][3] = one - three;
    }
    winograd_store<T>(v, to + t, apart, tiles - t);
    at += step;
    at = at >= end ? at - end : at;
  }
}

// A d A^T for any tiles of an image; p as above, from the first tile's rows on.
template <class T>
void winograd_gradient(i64 tiles, const T* p, i64 gap, T* to, i64 apart) {
  for (i64 t = 0; t < tiles; t += lanes_of<T>) {
    vec<T> v[2][4];  // rows of d A^T
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const T* even = p + (1 - i) * 2 * gap + t;
      const vec<T> here = load(even), next = load(even + gap);
      v[i][0] = here;
      v[i][1] = here + next;
      v[i][2] = here - next;
      v[i][3] = -next;
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const vec<T> u[4] = {v[0][j], v[0][j] + v[1][j], v[0][j] - v[1][j], -v[1][j]};
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) store_first(to + (4 * i + j) * apart + t, u[i], tiles - t);
    }
  }
}

// One panel of results to the pieces of rows of pixels that it is made of.
template <class T>
void winograd_output(const T* m, i64 apart, T bias, const tile_piece* pieces, int count, i64 stride, T* y) {
  constexpr int lanes = lanes_of<T>, width = 2 * panel_of<T>;
  T rows[2 * width];
  vec_bits<T> low, high;
  for (int i = 0; i < lanes; ++i) {
    low[i] = i / 2 + (i % 2) * lanes;
    high[i] = low[i] + lanes / 2;
  }
#pragma GCC unroll 2
  for (int half = 0; half < panel_of<T>; half += lanes) {
    vec<T> v[2][4];  // A^T m
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      vec<T> u[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) u[i] = load(m + (4 * i + j) * apart + half);
      v[0][j] = u[0] + u[1] + u[2];
      v[1][j] = u[1] - u[2] - u[3];
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const vec<T> even = v[i][0] + v[i][1] + v[i][2] + bias, odd = v[i][1] - v[i][2] - v[i][3] + bias;
      store(rows + i * width + 2 * half, __builtin_shuffle(even, odd, low));
      store(rows + i * width + 2 * half + lanes, __builtin_shuffle(even, odd, high));
    }
  }
  for (int p = 0; p < count; ++p) {
    const tile_piece& piece = pieces[p];
    for (int i = 0; i < piece.rows; ++i) {
      const T* from = rows + i * width + piece.column;
      T* to = y + piece.at + i * stride;
      if (piece.length == lanes / 2)  // within what was stored as one vector
        __builtin_memcpy(to, from, lanes / 2 * sizeof(T));
      else
        for (int at = 0; at < piece.length; at += lanes)
          store_first(to + at, load_first(from + at, piece.length - at), piece.length - at);
    }
  }
}

// G = 1 0 0, 1/2 1/2 1/2, 1/2 -1/2 1/2, 0 0 1.
template <class T>
void winograd_weights(i64 n, const T* taps, i64 stride, T* to, i64 apart) {
  constexpr int lanes = lanes_of<T>;
  for (i64 at = 0; at < n; at += lanes) {
    vec<T> v[4][3];  // G g
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      const vec<T> a = load_first(taps + j * stride + at, n - at), b = load_first(taps + (3 + j) * stride + at, n - at),
                   c = load_first(taps + (6 + j) * stride + at, n - at);
      v[0][j] = a, v[3][j] = c;
      v[1][j] = T(0.5) * (a + c + b), v[2][j] = T(0.5) * (a + c - b);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const vec<T> ends = v[i][0] + v[i][2];
      store_first(to + 4 * i * apart + at, v[i][0], n - at);
      store_first(to + (4 * i + 1) * apart + at, T(0.5) * (ends + v[i][1]), n - at);
      store_first(to + (4 * i + 2) * apart + at, T(0.5) * (ends - v[i][1]), n - at);
      store_first(to + (4 * i + 3) * apart + at, v[i][2], n - at);
    }
  }
}

template <class T>
void winograd_weights_gradient(i64 n, const T* u, i64 apart, T* taps, i64 stride) {
  constexpr int lanes = lanes_of<T>;
  for (i64 at = 0; at < n; at += lanes) {
    vec<T> v[3][4];  // G^T u
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      vec<T> m[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) m[i] = load_first(u + (4 * i + j) * apart + at, n - at);
      const vec<T> middle = T(0.5) * (m[1] + m[2]);
      v[0][j] = m[0] + middle, v[2][j] = m[3] + middle;
      v[1][j] = T(0.5) * (m[1] - m[2]);
    }
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      const vec<T> middle = T(0.5) * (v[i][1] + v[i][2]);
      store_first(taps + 3 * i * stride + at, v[i][0] + middle, n - at);
      store_first(taps + (3 * i + 1) * stride + at, T(0.5) * (v[i][1] - v[i][2]), n - at);
      store_first(taps + (3 * i + 2) * stride + at, v[i][3] + middle, n - at);
    }
  }
}
