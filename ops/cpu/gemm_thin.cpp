// c = op(a) b and c = a b^T for thin products (gemm.hpp), by the kernels of batch.inl.
//   b        tiles of rows x two vectors of columns; b is read in strips of two vectors through stretches of k, which stay in the
//            nearest cache for all rows. Sums are continued from stretch to stretch in c.
//   b^T      tiles of rows x rows of b, lanes along k; stretches of b's rows stay in the nearest cache for all rows of a.
#include "ops/cpu/conv_stage.hpp"
#include "ops/cpu/gemm.hpp"

namespace troupe::cpu {

namespace {

using T = float;

struct strides {
  i64 a, b, c;
  explicit strides(const gemm_spec& s)
      : a(s.lda ? s.lda : (s.transpose_a ? s.m : s.k)), b(s.ldb ? s.ldb : (s.transpose_b ? s.k : s.n)), c(s.ldc ? s.ldc : s.n) {}
};

// op(a) as [tile][k][row].
void pack(const kernels<T>& k, const gemm_spec& s, const even_blocks& tiles, i64 lda, const T* a, T* to) {
  for (i64 t = 0; t < tiles.blocks; ++t) {
    T* tile = to + tiles.begin(t) * s.k;
    if (!s.transpose_a) {
      k.transpose_matrix(tiles.size(t), s.k, a + tiles.begin(t) * lda, lda, tile, tiles.size(t));
      continue;
    }
    for (i64 i = 0; i < s.k; ++i) copy(tile + i * tiles.size(t), a + i * lda + tiles.begin(t), tiles.size(t));
  }
}

void columns_side_by_side(device& d, const kernels<T>& k, const gemm_spec& s, const T* a, const T* b, T* c) {
  const strides ld(s);
  // Wide rows of b are read as a few streams side by side, for columns whose results stay in the second cache.
  const bool wide = s.n > 2048;
  const even_blocks tiles(s.m, k.tile_rows), stretches(s.k, wide ? 24 : 128);
  scratch<T> packed(d, s.m * s.k);
  scratch<std::int32_t> rows_of_b(d, s.k), rows_of_c(d, s.m);
  pack(k, s, tiles, ld.a, a, packed.data);
  for (i64 i = 0; i < s.k; ++i) rows_of_b.data[i] = static_cast<std::int32_t>(i * ld.b);
  for (i64 i = 0; i < s.m; ++i) rows_of_c.data[i] = static_cast<std::int32_t>(i * ld.c);
  const i64 strip = 2 * k.lanes;
  const auto multiply = [&](i64 part, i64 n, i64 t) {
    const i64 from = stretches.begin(part);
    const batch_product<T> sum{stretches.size(part), rows_of_b.data + from, k.lanes, k.lanes, part > 0};
    k.batch_tile(tiles.size(t), n + k.lanes < s.n ? 2 : 1, sum, packed.data + tiles.begin(t) * s.k + from * tiles.size(t), nullptr,
                 b + n, rows_of_c.data + tiles.begin(t), c + n);
  };
  if (s.k <= s.m) {  // c is the large one: written row by row
    for (i64 t = 0; t < tiles.blocks; ++t)
      for (i64 part = 0; part < stretches.blocks; ++part)
        for (i64 n = 0; n < s.n; n += strip) multiply(part, n, t);
    return;
  }
  const i64 panel = wide ? 4096 : 512;  // columns of c that are finished before the next
  for (i64 first = 0; first < s.n; first += panel)
    for (i64 part = 0; part < stretches.blocks; ++part)
      for (i64 n = first; n < std::min(first + panel, s.n); n += strip)
        for (i64 t = 0; t < tiles.blocks; ++t) multiply(part, n, t);
}

void rows_by_rows(device& d, const kernels<T>& k, const gemm_spec& s, const T* a, const T* b, T* c) {
  const strides ld(s);
  const even_blocks rows(s.m, k.dot_rows), columns(s.n, k.dot_columns), stretches(s.k / k.lanes, 64);
  scratch<std::int32_t> row_of_b(d, k.dot_columns);
  for (int j = 0; j < k.dot_columns; ++j) row_of_b.data[j] = static_cast<std::int32_t>(j * ld.b);
  for (i64 i = 0; i < s.m; ++i) zero(c + i * ld.c, s.n);
  for (i64 j = 0; j < columns.blocks; ++j)
    for (i64 part = 0; part < stretches.blocks; ++part) {
      const i64 at = stretches.begin(part) * k.lanes;
      const batch_sum sum{1, stretches.size(part), 0, k.lanes, ld.a};
      for (i64 i = 0; i < rows.blocks; ++i)
        k.batch_dot(rows.size(i), columns.size(j), sum, a + rows.begin(i) * ld.a + at, b + columns.begin(j) * ld.b + at,
                    row_of_b.data, c + rows.begin(i) * ld.c + columns.begin(j), ld.c);
    }
}

}  // namespace

bool is_thin(const gemm_spec& s, bool wide) {
  constexpr i64 thin = 128, lanes = 16, most = i64{1} << 31;
  if (!wide || s.alpha != 1.0 || s.beta != 0.0 || s.m == 0 || s.n < 64 || s.k < 16) return false;
  const strides ld(s);
  if (s.k * ld.b >= most || s.m * ld.c >= most || s.n * ld.b >= most) return false;  // offsets have 32 bits
  if (s.transpose_b) return !s.transpose_a && s.m <= thin / 2 && s.k % lanes == 0 && s.k >= 256;
  return s.n % lanes == 0 && (s.m <= thin || s.k <= thin);
}

void thin_gemm(device& d, const kernels<T>& k, const gemm_spec& s, const T* a, const T* b, T* c) {
  if (s.transpose_b) return rows_by_rows(d, k, s, a, b, c);
  columns_side_by_side(d, k, s, a, b, c);
}

}  // namespace troupe::cpu
