// Kernels of bf16x3.hpp for the matrix unit. kernels.hpp states what this file may include,
// ops/CMakeLists.txt its compiler flags.
#include "ops/cpu/bf16x3.hpp"

#if defined(__AMX_BF16__) && defined(__AVX512F__)

#include <immintrin.h>

namespace troupe::cpu {

namespace {

using u16 = std::uint16_t;

// Configures all eight tiles as 16 rows of 64 bytes.
struct alignas(64) tile_shapes {
  std::uint8_t palette = 1, start = 0, reserved[14] = {};
  u16 bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

void begin() {
  static constexpr tile_shapes all{};
  _tile_loadconfig(&all);
}
void end() { _tile_release(); }

// Tile register numbers are encoded in the instruction.
#define TROUPE_STEP(c)                                \
  _tile_loadd(7, places[c] + at, stride);             \
  _tile_dpbf16ps(c, 4, 7);                            \
  _tile_dpbf16ps(c, 5, 7);                            \
  _tile_loadd(7, places[c] + at + 8 * s.row, stride); \
  _tile_dpbf16ps(c, 6, 7)

template <int N>
void tiles_of(const bf16x3_sum& s, const bf16_pair* const* places, float* const* to, const i64* to_row) {
  const i64 stride = 4 * s.row;
  _tile_zero(0);
  if constexpr (N > 1) _tile_zero(1);
  if constexpr (N > 2) _tile_zero(2);
  if constexpr (N > 3) _tile_zero(3);
  const u16* w = s.weights;
  for (i64 k = 0; k < s.steps; ++k, w += 3 * 512) {
    const i64 at = s.offset[k];
    _tile_loadd(4, w, 64);
    _tile_loadd(5, w + 512, 64);
    _tile_loadd(6, w + 1024, 64);
    TROUPE_STEP(0);
    if constexpr (N > 1) {
      TROUPE_STEP(1);
    }
    if constexpr (N > 2) {
      TROUPE_STEP(2);
    }
    if constexpr (N > 3) {
      TROUPE_STEP(3);
    }
  }
  _tile_stored(0, to[0], 4 * to_row[0]);
  if constexpr (N > 1) _tile_stored(1, to[1], 4 * to_row[1]);
  if constexpr (N > 2) _tile_stored(2, to[2], 4 * to_row[2]);
  if constexpr (N > 3) _tile_stored(3, to[3], 4 * to_row[3]);
}
#undef TROUPE_STEP

void tiles(int n, const bf16x3_sum& s, const bf16_pair* const* places, float* const* to, const i64* to_row) {
  if (n == 4) return tiles_of<4>(s, places, to, to_row);
  if (n == 3) return tiles_of<3>(s, places, to, to_row);
  n == 2 ? tiles_of<2>(s, places, to, to_row) : tiles_of<1>(s, places, to, to_row);
}

#define TROUPE_COLUMN(c, a1, a2, a3)          \
  _tile_loadd(a1, w + (3 * c) * 512, 64);     \
  _tile_dpbf16ps(c, a1, 6);                   \
  _tile_loadd(a2, w + (3 * c + 1) * 512, 64); \
  _tile_dpbf16ps(c, a2, 6);                   \
  _tile_loadd(a3, w + (3 * c + 2) * 512, 64); \
  _tile_dpbf16ps(c, a3, 7)

// Sums of up to five columns stay in tiles 0 to 4; weights are loaded to tiles 3 to 5, or only to
// 5.
template <int N>
void moved_of(const bf16x3_sum& s, const bf16_pair* places, float* to, i64 apart, i64 to_row) {
  const i64 stride = 4 * s.row;
  _tile_zero(0);
  if constexpr (N > 1) _tile_zero(1);
  if constexpr (N > 2) _tile_zero(2);
  if constexpr (N > 3) _tile_zero(3);
  if constexpr (N > 4) _tile_zero(4);
  const u16* w = s.weights;
  for (i64 k = 0; k < s.steps; ++k, w += N * 3 * 512) {
    _tile_loadd(6, places + s.offset[k], stride);
    _tile_loadd(7, places + s.offset[k] + 8 * s.row, stride);
    if constexpr (N <= 3) {
      TROUPE_COLUMN(0, 3, 4, 5);
      if constexpr (N > 1) {
        TROUPE_COLUMN(1, 3, 4, 5);
      }
      if constexpr (N > 2) {
        TROUPE_COLUMN(2, 3, 4, 5);
      }
    } else {
      TROUPE_COLUMN(0, 5, 5, 5);
      TROUPE_COLUMN(1, 5, 5, 5);
      TROUPE_COLUMN(2, 5, 5, 5);
      TROUPE_COLUMN(3, 5, 5, 5);
      if constexpr (N > 4) {
        TROUPE_COLUMN(4, 5, 5, 5);
      }
    }
  }
  const i64 bytes = 4 * to_row;
  _tile_stored(0, to, bytes);
  if constexpr (N > 1) _tile_stored(1, to + apart, bytes);
  if constexpr (N > 2) _tile_stored(2, to + 2 * apart, bytes);
  if constexpr (N > 3) _tile_stored(3, to + 3 * apart, bytes);
  if constexpr (N > 4) _tile_stored(4, to + 4 * apart, bytes);
}
#undef TROUPE_COLUMN

void moved(int columns, const bf16x3_sum& s, const bf16_pair* places, float* to, i64 apart, i64 to_row) {
  switch (columns) {
    case 1: return moved_of<1>(s, places, to, apart, to_row);
    case 2: return moved_of<2>(s, places, to, apart, to_row);
    case 3: return moved_of<3>(s, places, to, apart, to_row);
    case 4: return moved_of<4>(s, places, to, apart, to_row);
    default: return moved_of<5>(s, places, to, apart, to_row);
  }
}

// The three parts of 16 numbers, each an f32 whose lower 16 bits are zero. Ties are rounded up, so
// that NaN and infinity give NaN.
struct parts {
  __m512i one, two, three;
  explicit parts(__m512 x) {
    const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
    one = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), upper);
    const __m512 rest = _mm512_sub_ps(x, _mm512_castsi512_ps(one));
    two = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(rest), half), upper);
    three = _mm512_castps_si512(_mm512_sub_ps(rest, _mm512_castsi512_ps(two)));
  }
};
// Units of a (low half) and b (high half).
inline __m512i paired(__m512i a, __m512i b) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
  return _mm512_or_si512(_mm512_and_si512(b, upper), _mm512_srli_epi32(a, 16));
}
inline __mmask16 first_of(i64 n) {
  return n >= 16 ? __mmask16(0xffff) : n <= 0 ? __mmask16(0) : static_cast<__mmask16>((1U << n) - 1);
}

// 16 numbers from unit `at` of a row on, if the row is not contiguous. A null row is zero.
inline __m512 gathered(const bf16x3_row& r, const float* x, i64 at) {
  const __m512i from = _mm512_loadu_si512(r.from + at);
  const __mmask16 there = _mm512_cmpge_epi32_mask(from, _mm512_setzero_si512());
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), there, from, x, 4);
}

// Calls f(unit, numbers of a, numbers of b) for a gathered row, or for a contiguous row and up to
// 15 zeros after it.
template <class F>
inline void each_vector(const bf16x3_row& r, const float* a, const float* b, F f) {
  const __m512 none = _mm512_setzero_ps();
  if (r.from != nullptr) {
    for (i64 i = 0; i < r.count; i += 16) f(i, gathered(r, a, i), b != nullptr ? gathered(r, b, i) : none);
    return;
  }
  for (i64 i = 0; i < r.width; i += 16) {
    const __mmask16 m = first_of(r.width - i);
    f(r.pad + i, _mm512_maskz_loadu_ps(m, a + i), b != nullptr ? _mm512_maskz_loadu_ps(m, b + i) : none);
  }
}

void weights(int outputs, int channels, const float* w, i64 output_step, i64 channel_step, u16* to) {
  const __m512i at = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                        _mm512_set1_epi32(static_cast<int>(channel_step)));
  for (int o = 0; o < 16; ++o, to += 32) {
    const __mmask16 m = o < outputs ? first_of(channels) : __mmask16(0);
    const parts p(_mm512_mask_i32gather_ps(_mm512_setzero_ps(), m, at, w + (o < outputs ? o * output_step : 0), 4));
    const auto halves = [](__m512i x) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(x, 16)); };
    const __m256i one = halves(p.one), two = halves(p.two), three = halves(p.three);
    const auto put = [](u16* row, __m256i a, __m256i b) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(row), a);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + 16), b);
    };
    put(to, one, one);
    put(to + 512, two, two);
    put(to + 1024, three, one);
  }
}

void pairs(const bf16x3_row& r, int planes, const float* x, i64 plane, bf16_pair* to) {
  for (int c = 0; c < 16; c += 2, to += r.count) {
    const float* a = c < planes ? x + c * plane : nullptr;
    const float* b = c + 1 < planes ? x + (c + 1) * plane : nullptr;
    if (a == nullptr) {
      for (int part = 0; part < 3; ++part)
        for (i64 i = 0; i < r.count; i += 16) _mm512_storeu_si512(to + 8 * part * r.count + i, _mm512_setzero_si512());
      continue;
    }
    each_vector(r, a, b, [&](i64 i, __m512 va, __m512 vb) {
      const parts p(va), q(vb);
      _mm512_storeu_si512(to + i, paired(p.two, q.two));
      _mm512_storeu_si512(to + i + 8 * r.count, paired(p.one, q.one));
      _mm512_storeu_si512(to + i + 16 * r.count, paired(p.three, q.three));
    });
  }
}

void shifts(int copies, const i64* from, i64 rows, i64 length, i64 count, const bf16_pair* x, bf16_pair* to) {
  for (int j = 0; j < copies; ++j)
    for (i64 r = 0; r < rows; ++r, to += count)
      for (i64 i = 0; i < count; i += 16) _mm512_storeu_si512(to + i, _mm512_loadu_si512(x + r * length + from[j] + i));
}

void images(const bf16x3_row& r, int planes, const float* a, const float* b, i64 plane, bf16_pair* to, i64 part) {
  for (int c = 0; c < planes; ++c, to += r.count)
    each_vector(r, a + c * plane, b != nullptr ? b + c * plane : nullptr, [&](i64 i, __m512 va, __m512 vb) {
      const parts p(va), q(vb);
      _mm512_storeu_si512(to + i, paired(p.one, q.one));
      _mm512_storeu_si512(to + i + part, paired(p.two, q.two));
      _mm512_storeu_si512(to + i + 2 * part, paired(p.three, q.three));
    });
}

template <int Bit>
inline void transpose(__m512* v) {
  if constexpr (Bit > 0) {
    alignas(64) int low[16], high[16];
    for (int i = 0; i < 16; ++i) {
      low[i] = (i & Bit) == 0 ? i : 16 + (i ^ Bit);
      high[i] = (i & Bit) == 0 ? (i ^ Bit) : 16 + i;
    }
    const __m512i l = _mm512_load_si512(low), h = _mm512_load_si512(high);
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) {
      if ((k & Bit) != 0) continue;
      const __m512 a = v[k], b = v[k | Bit];
      v[k] = _mm512_permutex2var_ps(a, l, b);
      v[k | Bit] = _mm512_permutex2var_ps(a, h, b);
    }
    transpose<Bit / 2>(v);
  }
}

// Transposed units from `at` on of 16 planes: v[unit] holds all planes. Planes from `planes` on are
// zero.
inline void turned(const bf16x3_row& r, int planes, const float* x, i64 plane, i64 at, __mmask16 m, __m512* v) {
  __m512 u[16];
#pragma GCC unroll 16
  for (int c = 0; c < 16; ++c) {
    const float* from = x + (c < planes ? c : 0) * plane;
    const __m512 here = r.from != nullptr ? gathered(r, from, at) : _mm512_maskz_loadu_ps(m, from + at);
    u[c] = c < planes ? here : _mm512_setzero_ps();
  }
  transpose<8>(u);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) v[i] = u[i];
}

void images_turned(const bf16x3_row& r, int planes, const float* a, const float* b, i64 plane, bf16_pair* to, i64 part) {
  const i64 all = r.from != nullptr ? r.count : r.width;
  if (r.from == nullptr) to += r.pad * 16;
  for (i64 i = 0; i < all; i += 16) {
    const __mmask16 m = first_of(all - i);
    __m512 va[16], vb[16] = {};
    turned(r, planes, a, plane, i, m, va);
    if (b != nullptr) turned(r, planes, b, plane, i, m, vb);
    const i64 valid = all - i < 16 ? all - i : 16;
    for (i64 k = 0; k < valid; ++k) {
      const parts p(va[k]), q(vb[k]);
      bf16_pair* at = to + (i + k) * 16;
      _mm512_storeu_si512(at, paired(p.one, q.one));
      _mm512_storeu_si512(at + part, paired(p.two, q.two));
      _mm512_storeu_si512(at + 2 * part, paired(p.three, q.three));
    }
  }
}

#define TROUPE_TAP(c)                           \
  _tile_loadd(6, x[c] + at, 64);                \
  _tile_dpbf16ps(c, 3, 6);                      \
  _tile_dpbf16ps(c, 4, 6);                      \
  _tile_dpbf16ps(c, 5, 6);                      \
  _tile_loadd(7, x[c] + at + s.x_part, 64);     \
  _tile_dpbf16ps(c, 3, 7);                      \
  _tile_dpbf16ps(c, 4, 7);                      \
  _tile_loadd(6, x[c] + at + 2 * s.x_part, 64); \
  _tile_dpbf16ps(c, 3, 6)

inline void add_tile(const float* from, float* c) {
  for (int i = 0; i < 256; i += 16) _mm512_storeu_ps(c + i, _mm512_add_ps(_mm512_loadu_ps(c + i), _mm512_loadu_ps(from + i)));
}

template <int N>
void dot_of(const bf16x3_dot& s, const bf16_pair* dy, const bf16_pair* const* x, float* const* c) {
  const i64 stride = 4 * s.dy_stride;
  _tile_zero(0);
  if constexpr (N > 1) _tile_zero(1);
  if constexpr (N > 2) _tile_zero(2);
  for (i64 set = 0; set < s.sets; ++set)
    for (i64 row = 0; row < s.rows; ++row)
      for (i64 t = 0; t < s.across; ++t) {
        const bf16_pair* d = dy + set * s.dy_set + row * s.dy_row + 16 * t;
        const i64 at = set * s.x_set + row * s.x_row + 256 * t;
        _tile_loadd(3, d, stride);
        _tile_loadd(4, d + s.dy_part, stride);
        _tile_loadd(5, d + 2 * s.dy_part, stride);
        TROUPE_TAP(0);
        if constexpr (N > 1) {
          TROUPE_TAP(1);
        }
        if constexpr (N > 2) {
          TROUPE_TAP(2);
        }
      }
  alignas(64) float sum[256];
  _tile_stored(0, sum, 64);
  add_tile(sum, c[0]);
  if constexpr (N > 1) {
    _tile_stored(1, sum, 64);
    add_tile(sum, c[1]);
  }
  if constexpr (N > 2) {
    _tile_stored(2, sum, 64);
    add_tile(sum, c[2]);
  }
}
#undef TROUPE_TAP

void dot(int taps, const bf16x3_dot& s, const bf16_pair* dy, const bf16_pair* const* x, float* const* c) {
  if (taps == 3) return dot_of<3>(s, dy, x, c);
  taps == 2 ? dot_of<2>(s, dy, x, c) : dot_of<1>(s, dy, x, c);
}

void put(int rows, const float* c, const std::int32_t* pick, i64 n, const float* bias, float* y, i64 plane, i64 step) {
  const __m512i lanes = _mm512_loadu_si512(pick);
  const __m512i at = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                        _mm512_set1_epi32(static_cast<int>(step)));
  const __mmask16 m = first_of(n);
  for (int r = 0; r < rows; ++r) {
    __m512 v = _mm512_permutexvar_ps(lanes, _mm512_loadu_ps(c + 16 * r));
    if (bias != nullptr) v = _mm512_add_ps(v, _mm512_set1_ps(bias[r]));
    step == 1 ? _mm512_mask_storeu_ps(y + r * plane, m, v) : _mm512_mask_i32scatter_ps(y + r * plane, m, at, v, 4);
  }
}

void add_moved(int columns, const i64* from, int rows, i64 n, const float* x, i64 apart, i64 x_row, const float* bias, float* y,
               i64 y_row) {
  for (int r = 0; r < rows; ++r, x += x_row, y += y_row)
    for (i64 i = 0; i < n; i += 16) {
      __m512 v = _mm512_loadu_ps(x + from[0] + i);
      for (int c = 1; c < columns; ++c) v = _mm512_add_ps(v, _mm512_loadu_ps(x + c * apart + from[c] + i));
      if (bias != nullptr) v = _mm512_add_ps(v, _mm512_set1_ps(bias[r]));
      _mm512_mask_storeu_ps(y + i, first_of(n - i), v);
    }
}

constexpr bf16x3_kernels all{begin, end, tiles, moved, add_moved, weights, pairs, shifts, images, images_turned, dot, put};

}  // namespace

const bf16x3_kernels* bf16x3_compiled() { return __builtin_cpu_supports("x86-64-v4") ? &all : nullptr; }

}  // namespace troupe::cpu

#else  // compiled without the flags for AMX

namespace troupe::cpu {
const bf16x3_kernels* bf16x3_compiled() { return nullptr; }
}  // namespace troupe::cpu

#endif
