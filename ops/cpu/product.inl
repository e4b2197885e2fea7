// Products with a packed right operand: c[m, n] = a[m, k] b[k, n]. b is in panels of panel_of<T>
// columns, [k][columns] each, the last one padded with zeros. a is packed here, `depth` elements of
// k and up to product_tiles tiles of rows at a time. An element of c is summed over k in the same
// order for every m, so a row does not depend on other rows. Goto and van de Geijn 2008.

constexpr int product_depth = 256;  // elements of k; a panel of this depth fits into the L1 cache
constexpr int product_tiles = 32;   // tiles of rows; they stay in the L2 cache

// v[i][j] becomes v[j][i]: each round swaps the off-diagonal quarters of all squares of one size.
template <class T, int Width>
inline void transpose_squares(vec<T>* v) {
  if constexpr (Width >= 1) {
    constexpr int lanes = lanes_of<T>;
    vec_bits<T> upper, lower;
    for (int i = 0; i < lanes; ++i) {
      upper[i] = (i & Width) == 0 ? i : lanes + i - Width;
      lower[i] = (i & Width) == 0 ? i + Width : lanes + i;
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      if ((i & Width) != 0) continue;
      const vec<T> a = v[i], b = v[i + Width];
      v[i] = __builtin_shuffle(a, b, upper);
      v[i + Width] = __builtin_shuffle(a, b, lower);
    }
    transpose_squares<T, Width / 2>(v);
  }
}

// packed[k][row] of `rows` rows of a, `lda` apart. The excess elements that the last group of a
// column writes are overwritten by the next column.
template <class T>
inline void pack_rows(int rows, i64 depth, const T* a, i64 lda, T* packed) {
  constexpr int lanes = lanes_of<T>;
  i64 k = 0;
  for (; k + lanes <= depth; k += lanes)
    for (int first = (rows - 1) / lanes * lanes; first >= 0; first -= lanes) {
      vec<T> v[lanes];
#pragma GCC unroll 16
      for (int r = 0; r < lanes; ++r) v[r] = first + r < rows ? load(a + (first + r) * lda + k) : vec<T>{};
      transpose_squares<T, lanes / 2>(v);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) store(packed + (k + i) * rows + first, v[i]);
    }
  for (; k < depth; ++k)
    for (int r = 0; r < rows; ++r) packed[k * rows + r] = a[r * lda + k];
}

// Columns of a transposed a, [k][rows]: `tiles` tiles with first rows row_of(0), row_of(1), ... One
// pass over a, whose rows may be far apart. Excess elements of a tile's column are overwritten by
// its next column; the last column writes no excess.
template <class T, class F>
inline void pack_columns(i64 tiles, F row_of, i64 depth, const T* a, i64 lda, T* packed) {
  constexpr int lanes = lanes_of<T>;
  const i64 wide = lda >= 2 * panel_of<T> ? depth - 1 : 0;
  for (i64 k = 0; k < depth; ++k)
    for (i64 t = 0; t < tiles; ++t) {
      const i64 rows = row_of(t + 1) - row_of(t);
      const T* from = a + k * lda + row_of(t);
      T* to = packed + row_of(t) * depth + k * rows;
      if (k < wide)
        for (i64 r = 0; r < rows; r += lanes) store(to + r, load(from + r));
      else
        for (i64 r = 0; r < rows; ++r) to[r] = from[r];
    }
}

template <class T>
void pack_panels(bool transposed, i64 k_count, i64 n, const T* b, i64 ldb, T* packed) {
  constexpr int width = panel_of<T>;
  for (i64 j = 0; j < n; j += width, packed += k_count * width) {
    const int columns = static_cast<int>(smallest(width, n - j));
    if (transposed && columns == width) {
      pack_rows(width, k_count, b + j * ldb, ldb, packed);
      continue;
    }
    if (columns == width) {
      copy_panel(k_count, b + j, ldb, packed);
      continue;
    }
    for (i64 k = 0; k < k_count; ++k)
      for (int i = 0; i < width; ++i)
        packed[k * width + i] = i >= columns ? T(0) : transposed ? b[(j + i) * ldb + k] : b[k * ldb + j + i];
  }
}

template <class T, int R>
void product_tile(i64 depth, const T* a, const T* panel, T* c, i64 ldc, bool add) {
  constexpr int lanes = lanes_of<T>;
  vec<T> left[R], right[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    left[r] = right[r] = vec<T>{};
    __builtin_prefetch(c + r * ldc, 1);  // rows are far apart and probably not in the cache
    __builtin_prefetch(c + r * ldc + lanes, 1);
  }
  for (i64 k = 0; k < depth; ++k, a += R, panel += panel_of<T>) {
    const vec<T> p = load(panel), q = load(panel + lanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const vec<T> w = a[r] - vec<T>{};
      left[r] = fused(w, p, left[r]);
      right[r] = fused(w, q, right[r]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r, c += ldc) {
    store(c, add ? load(c) + left[r] : left[r]);
    store(c + lanes, add ? load(c + lanes) + right[r] : right[r]);
  }
}

template <class T, int... R>
struct product_table {
  static constexpr void (*row[])(i64, const T*, const T*, T*, i64, bool) = {product_tile<T, R>...};
};

template <class T>
inline void product_piece(int rows, int columns, i64 depth, const T* a, const T* panel, T* c, i64 ldc, bool add) {
#if TROUPE_TILE_ROWS == 14
  using table = product_table<T, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
#else
  using table = product_table<T, 1, 2, 3, 4, 5, 6>;
#endif
  constexpr int width = panel_of<T>;
  if (columns == width) return table::row[rows - 1](depth, a, panel, c, ldc, add);
  T whole[TROUPE_TILE_ROWS * width];
  table::row[rows - 1](depth, a, panel, whole, width, false);
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < columns; ++i) c[r * ldc + i] = (add ? c[r * ldc + i] : T(0)) + whole[r * width + i];
}

// `scratch`: product_scratch elements of the table. `add`: adds to c.
template <class T>
void product(bool transpose_a, i64 m, i64 n, i64 k_count, const T* a, i64 lda, const T* panels, T* c, i64 ldc, bool add,
             T* scratch) {
  constexpr int width = panel_of<T>;
  const i64 tiles = (m + TROUPE_TILE_ROWS - 1) / TROUPE_TILE_ROWS;
  const auto row_of = [&](i64 tile) { return tile * m / tiles; };  // sizes of tiles differ by at most one row
  for (i64 first = 0; first < tiles; first += product_tiles) {
    const i64 end = smallest(tiles, first + product_tiles);
    for (i64 k = 0; k < k_count; k += product_depth) {
      const i64 depth = smallest(product_depth, k_count - k);
      if (transpose_a)
        pack_columns(
            end - first, [&](i64 t) { return row_of(first + t) - row_of(first); }, depth, a + k * lda + row_of(first), lda,
            scratch);
      for (i64 t = first; t < end && !transpose_a; ++t)
        pack_rows(static_cast<int>(row_of(t + 1) - row_of(t)), depth, a + row_of(t) * lda + k, lda,
                  scratch + (row_of(t) - row_of(first)) * depth);
      for (i64 j = 0; j < n; j += width) {
        const T* panel = panels + j * k_count + k * width;
        const int columns = static_cast<int>(smallest(width, n - j));
        for (i64 t = first; t < end; ++t)
          product_piece(static_cast<int>(row_of(t + 1) - row_of(t)), columns, depth, scratch + (row_of(t) - row_of(first)) * depth,
                        panel, c + row_of(t) * ldc + j, ldc, add || k > 0);
      }
    }
  }
}
