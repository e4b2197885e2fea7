// Matrix products on AMX tiles. Blocking as in Goto and van de Geijn (2008): the right factor is
// packed in panels that stay in the L2 cache; the left factor is packed completely beforehand.
// Factors are rounded to bf16 during packing, so an f32 weight is read once.
#include <algorithm>

#include "ops/cpu/amx.hpp"
#include "ops/cpu/amx_ops.hpp"

namespace troupe::cpu {

namespace {

constexpr i64 part_rows = 512, panel_elements = i64{1} << 19;

// Elements of the sum, and columns, of a panel. With few rows of c, reading the right factor
// dominates. It is then read in the longest possible pieces of its rows, since each piece is on
// another page.
struct panel_shape {
  i64 sum, columns;
};
panel_shape panel_of(const gemm_spec& s) {
  if (s.m > 64) return {512, 256};
  return s.transpose_b ? panel_shape{2048, 64} : panel_shape{128, 2048};
}
constexpr i64 tile_bytes = 2 * tile_elements;

i64 up(i64 n, i64 to) { return (n + to - 1) / to * to; }

// size: the extents of one product and the locations of its packed factors are set once, and every
// pass reads most of them
class blocked {
 public:
  blocked(device& d, const amx_kernels& k, const gemm_spec& s, const tensor& a, const tensor& b, tensor& c)
      : device_(d), k_(k), s_(s), c_(c), steps_(up(s.k, tile_sum) / tile_sum) {
    left_ = source(a, s.transpose_a, s.lda ? s.lda : (s.transpose_a ? s.m : s.k));
    right_ = source(b, s.transpose_b, s.ldb ? s.ldb : (s.transpose_b ? s.k : s.n));
    ldc_ = s.ldc ? s.ldc : s.n;
    max_sum_ = panel_of(s).sum;
    one_sum_ = s.k <= max_sum_;
    columns_ =
        one_sum_ ? std::max<i64>(32, panel_elements / std::max<i64>(tile_sum, up(s.k, tile_sum)) / 32 * 32) : panel_of(s).columns;
    columns_ = std::min(columns_, up(s.n, 32));
    // Large results (gradients of large weights) leave the caches before they are read.
    // Non-temporal stores then avoid fetching the lines first.
    constexpr i64 too_large = i64{1} << 23;  // elements
    streams_ = c.type() == dtype::f32 && s.alpha == 1.0 && s.beta == 0.0 && s.m * s.n >= too_large && ldc_ % 16 == 0 &&
               reinterpret_cast<std::uintptr_t>(c.raw()) % 64 == 0;
  }

  void run() {
    const i64 panel_steps = std::min(steps_, max_sum_ / tile_sum);
    tensor left = buffer(up(s_.m, 32) * steps_ * tile_sum, dtype::bf16),
           panel = buffer((columns_ + 16) * panel_steps * tile_sum, dtype::bf16);
    tensor part = buffer(one_sum_ ? 32 * 32 : std::min(part_rows, up(s_.m, 32)) * columns_, dtype::f32);
    packed_ = static_cast<std::byte*>(left.raw_mutable());
    panel_ = static_cast<std::byte*>(panel.raw_mutable());
    part_ = part.mutable_data<float>();
    pack_left();
    k_.begin(tile_sum);
    for (i64 n = 0; n < s_.n; n += columns_) {
      const i64 wide = std::min(columns_, s_.n - n);
      if (one_sum_) {
        pack_panel(n, wide, 0, s_.k);
        for (i64 m = 0; m < s_.m; m += 32) row_of_blocks(m, n, wide);
      } else {
        for (i64 m = 0; m < s_.m; m += part_rows) long_sums(m, std::min(part_rows, s_.m - m), n, wide);
      }
    }
    k_.end();
    if (streams_) k_.fence();
  }

 private:
  static pack_source source(const tensor& t, bool transposed, i64 ld) { return {t.raw(), ld, t.type() == dtype::f32, transposed}; }
  tensor buffer(i64 elements, dtype t) { return tensor::allocate(device_, shape{elements}, t); }

  // Source of op(from)[i ...][j ...].
  static pack_source at(pack_source s, i64 i, i64 j) {
    const i64 elements = s.transposed ? j * s.ld + i : i * s.ld + j;
    s.from = static_cast<const std::byte*>(s.from) + elements * (s.f32 ? 4 : 2);
    return s;
  }

  void pack_left() {
    for (i64 m = 0; m < s_.m; m += 16)
      k_.pack_left(at(left_, m, 0), std::min<i64>(16, s_.m - m), s_.k, packed_ + m / 16 * steps_ * tile_bytes);
  }

  // Packs columns [n, n + wide) and elements [first, first + sum) of the sums, one tile of 16
  // columns after the other.
  void pack_panel(i64 n, i64 wide, i64 first, i64 sum) {
    in_panel_ = up(sum, tile_sum) / tile_sum;
    if (!right_.transposed) return k_.pair_rows(at(right_, first, n), sum, wide, row_bytes(), panel_);
    for (i64 j = 0; j < wide; j += 16)
      k_.pack_right(at(right_, first, n + j), sum, std::min<i64>(16, wide - j), panel_ + j / 16 * in_panel_ * tile_bytes);
  }
  i64 row_bytes() const { return 4 * columns_ + 64; }  // the 64 bytes avoid cache set conflicts between the rows of a tile

  void block(i64 m, i64 rows, i64 j, i64 columns, i64 first_step, float* c, i64 ldc, bool add) {
    const tile_walk a{packed_ + (m / 16 * steps_ + first_step) * tile_bytes, 64, steps_ * tile_bytes, tile_bytes, nullptr};
    const tile_walk b = right_.transposed
                            ? tile_walk{panel_ + j / 16 * in_panel_ * tile_bytes, 64, in_panel_ * tile_bytes, tile_bytes, nullptr}
                            : tile_walk{panel_ + 4 * j, row_bytes(), 64, 16 * row_bytes(), nullptr};
    k_.product(rows > 16 ? 2 : 1, columns > 16 ? 2 : 1, static_cast<int>(in_panel_), a, b, c, ldc, add);
  }

  std::byte* result(i64 m, i64 n) { return static_cast<std::byte*>(c_.raw_mutable()) + (m * ldc_ + n) * i64(size_of(c_.type())); }
  void finish(const float* from, i64 n, std::byte* to) {
    k_.finish(n, from, static_cast<float>(s_.alpha), 0.0f, s_.beta != 0.0, c_.type() == dtype::f32, to);
  }

  // For sums that one panel completes: writes tiles directly to c where whole tiles fit.
  void row_of_blocks(i64 m, i64 n, i64 wide) {
    const i64 rows = std::min<i64>(32, s_.m - m);
    for (i64 j = 0; j < wide; j += 32) {
      const i64 columns = std::min<i64>(32, wide - j);
      const bool fits = rows % 16 == 0 && columns % 16 == 0;
      if (fits && streams_) {
        block(m, rows, j, columns, 0, part_, 32, false);
        k_.stream(rows, columns, part_, 32, reinterpret_cast<float*>(result(m, n + j)), ldc_);
        continue;
      }
      if (fits && s_.alpha == 1.0 && c_.type() == dtype::f32) {
        block(m, rows, j, columns, 0, reinterpret_cast<float*>(result(m, n + j)), ldc_, s_.beta != 0.0);
        continue;
      }
      block(m, rows, j, columns, 0, part_, 32, false);
      for (i64 i = 0; i < rows; ++i) finish(part_ + 32 * i, columns, result(m + i, n + j));
    }
  }

  void long_sums(i64 m, i64 high, i64 n, i64 wide) {
    for (i64 first = 0; first < s_.k; first += max_sum_) {
      pack_panel(n, wide, first, std::min(max_sum_, s_.k - first));
      for (i64 i = 0; i < high; i += 32)
        for (i64 j = 0; j < wide; j += 32)
          block(m + i, std::min<i64>(32, high - i), j, std::min<i64>(32, wide - j), first / tile_sum, part_ + i * columns_ + j,
                columns_, first > 0);
    }
    for (i64 i = 0; i < high; ++i) finish(part_ + i * columns_, wide, result(m + i, n));
  }

  device& device_;
  const amx_kernels& k_;
  const gemm_spec& s_;
  tensor& c_;
  pack_source left_{}, right_{};
  i64 steps_, max_sum_ = 0, ldc_ = 0, columns_ = 0, in_panel_ = 0;
  bool one_sum_ = false, streams_ = false;
  std::byte *packed_ = nullptr, *panel_ = nullptr;
  float* part_ = nullptr;
};

}  // namespace

void amx_gemm(device& d, const amx_kernels& k, const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) {
  if (s.m <= 0 || s.n <= 0) return;
  if (s.beta == 0.0 || s.beta == 1.0) return blocked(d, k, s, a, b, c).run();
  tensor sums = tensor::allocate(d, c.dims(), dtype::f32);  // rare case, not optimised
  d.copy(c, sums);
  gemm_spec added = s;
  added.beta = 1.0;
  for (i64 i = 0; i < s.m; ++i) {
    tensor row = sums.slice(i * (s.ldc ? s.ldc : s.n), shape{s.n});
    d.scale(s.beta, row);
  }
  blocked(d, k, added, a, b, sums).run();
  d.copy(sums, c);
}

}  // namespace troupe::cpu
