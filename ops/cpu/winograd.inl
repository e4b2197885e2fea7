// Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray 2016): a 4x4 patch d gives 2x2 outputs y = A^T [(G g G^T) . (B^T d B)] A.
//   B^T = 1 0 -1 0, 0 1 1 0, 0 -1 1 0, 0 1 0 -1      A^T = 1 1 1 0, 0 1 -1 -1
// Lanes along the tiles of a row, whose patches are 2 pixels apart. Nothing but the first `tiles` columns is written.

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
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const vec<T> u[4] = {v[0][j] - v[2][j], v[1][j] + v[2][j], v[2][j] - v[1][j], v[1][j] - v[3][j]};
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) store_first(to + (4 * i + j) * apart + t, u[i], tiles - t);
    }
  }
}

template <class T>
void winograd_gradient(i64 tiles, const T* rows, i64 stride, T* to, i64 apart) {
  constexpr int lanes = lanes_of<T>;
  for (i64 t = 0; t < tiles; t += lanes) {
    vec<T> v[2][4];  // rows of d A^T
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const pixel_pairs<T> here(rows + i * stride + 2 * t);
      v[i][0] = here.even;
      v[i][1] = here.even + here.odd;
      v[i][2] = here.even - here.odd;
      v[i][3] = -here.odd;
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const vec<T> u[4] = {v[0][j], v[0][j] + v[1][j], v[0][j] - v[1][j], -v[1][j]};
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) store_first(to + (4 * i + j) * apart + t, u[i], tiles - t);
    }
  }
}

template <class T>
void winograd_output(const T* m, i64 apart, T bias, T* rows, i64 stride) {
  constexpr int lanes = lanes_of<T>;
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
      store(rows + i * stride + 2 * half, __builtin_shuffle(even, odd, low));
      store(rows + i * stride + 2 * half + lanes, __builtin_shuffle(even, odd, high));
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
