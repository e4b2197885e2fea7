// Kernels for AMX. amx.hpp states what this file may include, ops/CMakeLists.txt its compiler
// flags.
#include "ops/cpu/amx.hpp"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__)

#include <immintrin.h>

namespace troupe::cpu {
namespace {

struct alignas(64) tile_config {
  unsigned char palette = 1, start_row = 0, reserved[14] = {};
  unsigned short bytes[16] = {};
  unsigned char rows[16] = {};
};

// Tiles 0 to 3 hold results, 4 and 5 the left factor, 6 and 7 the right factor.
void begin(int sum) {
  tile_config c;
  for (int i = 0; i < 8; ++i) {
    const bool left = i == 4 || i == 5, right = i >= 6;
    c.rows[i] = static_cast<unsigned char>(right ? sum / 2 : 16);
    c.bytes[i] = static_cast<unsigned short>(left ? 2 * sum : 64);
  }
  asm volatile("" ::: "memory");  // the intrinsic declares a read of only 8 bytes
  _tile_loadconfig(&c);
}

void end() { _tile_release(); }

const char* place(const tile_walk& w, int s) { return static_cast<const char*>(w.at) + (w.offset ? w.offset[s] : s * w.step); }

template <int M, int N>
void product_of(int steps, const tile_walk& a, const tile_walk& b, float* c, i64 ldc, bool add) {
  const i64 row = ldc * 4;
  float *low = c + 16 * ldc, *right = c + 16, *corner = low + 16;
  if (add) {
    _tile_loadd(0, c, row);
    if constexpr (N == 2) _tile_loadd(1, right, row);
    if constexpr (M == 2) _tile_loadd(2, low, row);
    if constexpr (M == 2 && N == 2) _tile_loadd(3, corner, row);
  } else {
    _tile_zero(0);
    if constexpr (N == 2) _tile_zero(1);
    if constexpr (M == 2) _tile_zero(2);
    if constexpr (M == 2 && N == 2) _tile_zero(3);
  }
  for (int s = 0; s < steps; ++s) {
    const char *from_a = place(a, s), *from_b = place(b, s);
    _tile_loadd(4, from_a, a.stride);
    _tile_loadd(6, from_b, b.stride);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (N == 2) {
      _tile_loadd(7, from_b + b.next, b.stride);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (M == 2) {
      _tile_loadd(5, from_a + a.next, a.stride);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (N == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, row);
  if constexpr (N == 2) _tile_stored(1, right, row);
  if constexpr (M == 2) _tile_stored(2, low, row);
  if constexpr (M == 2 && N == 2) _tile_stored(3, corner, row);
}

void product(int m_tiles, int n_tiles, int steps, const tile_walk& a, const tile_walk& b, float* c, i64 ldc, bool add) {
  const auto f =
      m_tiles == 2 ? (n_tiles == 2 ? product_of<2, 2> : product_of<2, 1>) : (n_tiles == 2 ? product_of<1, 2> : product_of<1, 1>);
  f(steps, a, b, c, ldc, add);
}

// Mask of the elements from `at` on that exist, out of `n`; at most `most` bits.
inline unsigned mask_of(i64 n, i64 at, i64 most) {
  const i64 there = n - at < 0 ? 0 : n - at > most ? most : n - at;
  return there >= 32 ? 0xffffffffu : (1u << there) - 1u;
}

inline __m512i rounded(__m512 high, __m512 low) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }

// 32 consecutive elements of a row.
template <bool F32>
inline __m512i load_entry(const void* from, i64 at, unsigned mask) {
  if constexpr (F32) {
    const float* p = static_cast<const float*>(from) + at;
    return rounded(_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), p + 16),
                   _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), p));
  } else {
    return _mm512_maskz_loadu_epi16(mask, static_cast<const std::uint16_t*>(from) + at);
  }
}

// Two rows of 16 elements, as pairs.
template <bool F32>
inline __m512i load_pairs(const void* from, i64 first, i64 second, unsigned mask_first, unsigned mask_second) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4,
                                         19, 3, 18, 2, 17, 1, 16, 0);
  __m512i both;
  if constexpr (F32) {
    const float* p = static_cast<const float*>(from);
    both = rounded(_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask_second), p + second),
                   _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask_first), p + first));
  } else {
    const auto* p = static_cast<const std::uint16_t*>(from);
    both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_loadu_epi16(static_cast<__mmask16>(mask_first), p + first)),
                              _mm256_maskz_loadu_epi16(static_cast<__mmask16>(mask_second), p + second), 1);
  }
  return _mm512_permutexvar_epi16(order, both);
}

// Transposes 16 x 16 elements of 32 bits.
inline void transpose(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {  // r[4 g + i]: rows 4 g .. 4 g + 3, columns i, 4 + i, 8 + i, 12 + i
    const __m512i a = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88), b = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
    const __m512i c = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd), d = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    t[i] = _mm512_shuffle_i32x4(a, b, 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(c, d, 0x88);
    t[8 + i] = _mm512_shuffle_i32x4(a, b, 0xdd);
    t[12 + i] = _mm512_shuffle_i32x4(c, d, 0xdd);
  }
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

inline void store_tile(const __m512i (&r)[16], char* to) {
  for (int i = 0; i < 16; ++i) _mm512_store_si512(to + 64 * i, r[i]);
}

// Packs tiles whose rows are up to 16 rows of from, [rows][sum]. Turned: transposed as 32-bit
// units.
template <bool F32, bool Turned>
void pack_along(const void* from, i64 ld, i64 rows, i64 sum, char* to) {
  // In elements; there are more parallel streams of rows than the hardware prefetcher follows.
  constexpr i64 ahead = F32 ? 128 : 256;
  for (i64 k = 0; k < sum; k += 32, to += 1024) {
    const unsigned mask = mask_of(sum, k, 32);
    __m512i r[16];
    for (i64 i = 0; i < 16; ++i) {
      if (i < rows) {
        const char* next = static_cast<const char*>(from) + (i * ld + k + ahead) * (F32 ? 4 : 2);
        _mm_prefetch(next, _MM_HINT_T0);
        if constexpr (F32) _mm_prefetch(next + 64, _MM_HINT_T0);
      }
      r[i] = i < rows ? load_entry<F32>(from, i * ld + k, mask) : _mm512_setzero_si512();
    }
    if constexpr (Turned) transpose(r);
    store_tile(r, to);
  }
}

// Packs tiles from pairs of rows of from, [sum][columns], with at most 16 columns.
template <bool F32, bool Turned>
void pack_across(const void* from, i64 ld, i64 sum, i64 columns, char* to) {
  const unsigned mask = mask_of(columns, 0, 16);
  for (i64 k = 0; k < sum; k += 32, to += 1024) {
    __m512i r[16];
    for (i64 i = 0; i < 16; ++i) {
      const i64 first = k + 2 * i;
      if (first >= sum) {
        r[i] = _mm512_setzero_si512();
      } else {
        const bool both = first + 1 < sum;
        r[i] = load_pairs<F32>(from, first * ld, both ? (first + 1) * ld : first * ld, mask, both ? mask : 0u);
      }
    }
    if constexpr (Turned) transpose(r);
    store_tile(r, to);
  }
}

void pack_left(const pack_source& s, i64 rows, i64 sum, void* to) {
  char* t = static_cast<char*>(to);
  if (s.transposed)
    s.f32 ? pack_across<true, true>(s.from, s.ld, sum, rows, t) : pack_across<false, true>(s.from, s.ld, sum, rows, t);
  else
    s.f32 ? pack_along<true, false>(s.from, s.ld, rows, sum, t) : pack_along<false, false>(s.from, s.ld, rows, sum, t);
}

void pack_right(const pack_source& s, i64 sum, i64 columns, void* to) {
  char* t = static_cast<char*>(to);
  if (s.transposed)
    s.f32 ? pack_along<true, true>(s.from, s.ld, columns, sum, t) : pack_along<false, true>(s.from, s.ld, columns, sum, t);
  else
    s.f32 ? pack_across<true, false>(s.from, s.ld, sum, columns, t) : pack_across<false, false>(s.from, s.ld, sum, columns, t);
}

template <bool F32>
void pair_rows_of(const pack_source& s, i64 sum, i64 columns, i64 row_bytes, char* to) {
  for (i64 k = 0; k < (sum + 31) / 32 * 32; k += 2, to += row_bytes) {
    const i64 first = k * s.ld, second = k + 1 < sum ? first + s.ld : first;
    for (i64 j = 0; j < columns; j += 16) {
      const unsigned mask = k < sum ? mask_of(columns, j, 16) : 0u;
      _mm512_storeu_si512(to + 4 * j, load_pairs<F32>(s.from, first + j, second + j, mask, k + 1 < sum ? mask : 0u));
    }
  }
}

void pair_rows(const pack_source& s, i64 sum, i64 columns, i64 row_bytes, void* to) {
  s.f32 ? pair_rows_of<true>(s, sum, columns, row_bytes, static_cast<char*>(to))
        : pair_rows_of<false>(s, sum, columns, row_bytes, static_cast<char*>(to));
}

void interleave(i64 n, const std::uint16_t* p, const std::uint16_t* q, std::uint16_t* to) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36, 4, 35,
                                       3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  for (i64 i = 0; i < n; i += 32) {
    const unsigned mask = mask_of(n, i, 32);
    const __m512i a = _mm512_maskz_loadu_epi16(mask, p + i), b = q ? _mm512_maskz_loadu_epi16(mask, q + i) : _mm512_setzero_si512();
    const unsigned first = mask_of(n, i, 16), second = mask_of(n, i + 16, 16);
    _mm512_mask_storeu_epi32(to + 2 * i, static_cast<__mmask16>(first), _mm512_permutex2var_epi16(a, low, b));
    _mm512_mask_storeu_epi32(to + 2 * i + 32, static_cast<__mmask16>(second), _mm512_permutex2var_epi16(a, high, b));
  }
}

template <bool F32, bool Add>
void finish_as(i64 n, const float* from, float alpha, float bias, void* to) {
  const __m512 a = _mm512_set1_ps(alpha), b = _mm512_set1_ps(bias);
  for (i64 i = 0; i < n; i += 16) {
    const auto mask = static_cast<__mmask16>(mask_of(n, i, 16));
    __m512 x = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, from + i), a, b);
    if constexpr (F32) {
      float* p = static_cast<float*>(to) + i;
      if constexpr (Add) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, p));
      _mm512_mask_storeu_ps(p, mask, x);
    } else {
      auto* p = static_cast<std::uint16_t*>(to) + i;
      if constexpr (Add)
        x = _mm512_add_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p)), 16)));
      _mm256_mask_storeu_epi16(p, mask, (__m256i)_mm512_cvtneps_pbh(x));
    }
  }
}

void finish(i64 n, const float* from, float alpha, float bias, bool add, bool f32, void* to) {
  if (f32)
    add ? finish_as<true, true>(n, from, alpha, bias, to) : finish_as<true, false>(n, from, alpha, bias, to);
  else
    add ? finish_as<false, true>(n, from, alpha, bias, to) : finish_as<false, false>(n, from, alpha, bias, to);
}

void finish_rows(i64 rows, i64 n, const float* from, i64 from_stride, float bias, bool f32, void* to, i64 to_stride) {
  for (i64 r = 0; r < rows; ++r) {
    if (f32)
      finish_as<true, false>(n, from + r * from_stride, 1.0f, bias, static_cast<float*>(to) + r * to_stride);
    else
      finish_as<false, false>(n, from + r * from_stride, 1.0f, bias, static_cast<std::uint16_t*>(to) + r * to_stride);
  }
}

void copy_rows(i64 rows, i64 n, const std::uint16_t* from, i64 from_stride, std::uint16_t* to, i64 to_stride) {
  for (i64 r = 0; r < rows; ++r)
    for (i64 i = 0; i < n; i += 32) {
      const unsigned mask = mask_of(n, i, 32);
      _mm512_mask_storeu_epi16(to + r * to_stride + i, mask, _mm512_maskz_loadu_epi16(mask, from + r * from_stride + i));
    }
}

void stream(i64 rows, i64 n, const float* from, i64 from_stride, float* to, i64 to_stride) {
  for (i64 r = 0; r < rows; ++r)
    for (i64 i = 0; i < n; i += 16) _mm512_stream_ps(to + r * to_stride + i, _mm512_loadu_ps(from + r * from_stride + i));
}

void fence() { _mm_sfence(); }

constexpr amx_kernels set{begin,      end,    product,     pack_left, pack_right, pair_rows,
                          interleave, finish, finish_rows, copy_rows, stream,     fence};

}  // namespace

const amx_kernels* compiled_amx() { return &set; }

}  // namespace troupe::cpu

#else  // compiled without the flags for AMX

namespace troupe::cpu {
const amx_kernels* compiled_amx() { return nullptr; }
}  // namespace troupe::cpu

#endif
