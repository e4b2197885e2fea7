// c = op(a) b and c = a b^T for thin products (gemm.hpp), with the kernels of batch.inl.
//   b    tiles of rows x two vectors of columns. b is read in strips of two vectors over stretches
//   of
//        k, which stay in the L1 cache for all rows. Sums continue from stretch to stretch in c.
//   b^T  tiles of rows x rows of b, with vectors along k. Stretches of b's rows stay in the L1
//        cache for all rows of a.
#include <algorithm>
#include <bit>

#include "ops/cpu/conv_stage.hpp"
#include "ops/cpu/gemm.hpp"
#include "ops/packet_sum.hpp"

namespace troupe::cpu {

namespace {

using T = float;

struct strides {
  i64 a, b, c;
  explicit strides(const gemm_spec& s)
      : a(s.lda ? s.lda : (s.transpose_a ? s.m : s.k)), b(s.ldb ? s.ldb : (s.transpose_b ? s.k : s.n)), c(s.ldc ? s.ldc : s.n) {}
};

// Packs op(a) as [tile][k][row].
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

// Wide rows of b are read as a few parallel streams, for columns whose results stay in the L2
// cache.
bool reads_wide(const gemm_spec& s) { return s.n > 2048; }
even_blocks stretches_of(const gemm_spec& s) { return {s.k, reads_wide(s) ? 24 : 128}; }

void columns_side_by_side(device& d, const kernels<T>& k, const gemm_spec& s, const T* a, const T* b, T* c) {
  const strides ld(s);
  const even_blocks tiles(s.m, k.tile_rows), stretches = stretches_of(s);
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
  if (s.k <= s.m) {  // c is the larger matrix: write it row by row
    for (i64 t = 0; t < tiles.blocks; ++t)
      for (i64 part = 0; part < stretches.blocks; ++part)
        for (i64 n = 0; n < s.n; n += strip) multiply(part, n, t);
    return;
  }
  const i64 panel = reads_wide(s) ? 4096 : 512;  // number of columns of c that are completed before the next ones
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

// Sums over packets, tile by tile of c: each packet is summed in the same stretches as alone, and
// added while the tile is in the cache.
class summed_tiles {
 public:
  summed_tiles(device& d, const kernels<T>& k, const gemm_spec& s, i64 packets, const T* a, const T* b)
      : k_(k),
        s_(s),
        b_(b),
        tiles_(s.m, k.tile_rows),
        stretches_(stretches_of(s)),
        packed_(d, packets * s.m * s.k),
        rows_of_b_(d, s.k),
        rows_of_c_(d, s.m),
        rows_of_sum_(d, k.tile_rows),
        sums_(d, std::bit_width(static_cast<std::uint64_t>(packets)) * k.tile_rows * strip()) {
    for (i64 p = 0; p < packets; ++p) pack(k, s, tiles_, s.m, a + p * s.k * s.m, packed_.data + p * s.k * s.m);
    for (i64 i = 0; i < s.k; ++i) rows_of_b_.data[i] = static_cast<std::int32_t>(i * s.n);
    for (i64 i = 0; i < s.m; ++i) rows_of_c_.data[i] = static_cast<std::int32_t>(i * s.n);
    for (i64 i = 0; i < k.tile_rows; ++i) rows_of_sum_.data[i] = static_cast<std::int32_t>(i * strip());
  }
  void make(i64 packets, T* c) {
    for (i64 t = 0; t < tiles_.blocks; ++t)
      for (i64 n = 0; n < s_.n; n += strip()) sum(t, n, 0, packets, rows_of_c_.data + tiles_.begin(t), c + n, sums_.data);
  }

 private:
  i64 strip() const { return 2 * k_.lanes; }
  void add_packet(i64 t, i64 n, i64 p, const std::int32_t* rows, T* to, bool add) {
    for (i64 part = 0; part < stretches_.blocks; ++part) {
      const i64 from = stretches_.begin(part);
      const batch_product<T> product{stretches_.size(part), rows_of_b_.data + from, k_.lanes, k_.lanes, add || part > 0};
      const T* left = packed_.data + p * s_.k * s_.m + tiles_.begin(t) * s_.k + from * tiles_.size(t);
      k_.batch_tile(tiles_.size(t), n + k_.lanes < s_.n ? 2 : 1, product, left, nullptr, b_ + p * s_.k * s_.n + n, rows, to);
    }
  }
  // `free`: scratch for the sums of right subtrees.
  void sum(i64 t, i64 n, i64 first, i64 packets, const std::int32_t* rows, T* to, T* free) {
    if (packets == 1) return add_packet(t, n, first, rows, to, false);
    const i64 left = left_of(packets);
    sum(t, n, first, left, rows, to, free);
    if (packets - left == 1 && stretches_.blocks == 1) return add_packet(t, n, first + left, rows, to, true);
    sum(t, n, first + left, packets - left, rows_of_sum_.data, free, free + k_.tile_rows * strip());
    const i64 columns = std::min(strip(), s_.n - n);
    for (i64 r = 0; r < tiles_.size(t); ++r)
      for (i64 j = 0; j < columns; ++j) to[rows[r] + j] += free[r * strip() + j];
  }

  const kernels<T>& k_;
  const gemm_spec& s_;
  const T* b_;
  const even_blocks tiles_, stretches_;
  scratch<T> packed_;
  scratch<std::int32_t> rows_of_b_, rows_of_c_, rows_of_sum_;
  scratch<T> sums_;
};

}  // namespace

bool offsets_fit(const gemm_spec& s) {
  constexpr i64 most = i64{1} << 31;
  const strides ld(s);
  return s.k * ld.b < most && s.m * ld.c < most && s.n * ld.b < most;
}

bool is_thin(const gemm_spec& s, bool wide) {
  constexpr i64 thin = 128, lanes = 16;
  if (!wide || s.alpha != 1.0 || s.beta != 0.0 || s.m == 0 || s.n < 64 || s.k < 16) return false;
  if (!offsets_fit(s)) return false;
  if (s.transpose_b) return !s.transpose_a && s.m <= thin / 2 && s.k % lanes == 0 && s.k >= 256;
  return s.n % lanes == 0 && (s.m <= thin || s.k <= thin);
}

void thin_gemm(device& d, const kernels<T>& k, const gemm_spec& s, const T* a, const T* b, T* c) {
  if (s.transpose_b) return rows_by_rows(d, k, s, a, b, c);
  columns_side_by_side(d, k, s, a, b, c);
}

void thin_gemm_summed(device& d, const kernels<float>& k, const gemm_spec& s, i64 packets, const float* a, const float* b,
                      float* c) {
  summed_tiles(d, k, s, packets, a, b).make(packets, c);
}

}  // namespace troupe::cpu
