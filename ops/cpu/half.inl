// bf16 as arrays of its bits (ops/cpu/bf16.hpp): conversions, and what needs no arithmetic.

inline std::uint32_t bits_from(float x) {
  std::uint32_t u;
  __builtin_memcpy(&u, &x, sizeof u);
  return u;
}
inline float float_from(std::uint32_t u) {
  float x;
  __builtin_memcpy(&x, &u, sizeof x);
  return x;
}

inline void widen(i64 n, const half* x, float* y) {
  for (i64 i = 0; i < n; ++i) y[i] = float_from(std::uint32_t{x[i]} << 16);
}

// Nearest, ties to even; a NaN becomes a quiet one.
inline void narrow(i64 n, const float* x, half* y) {
  for (i64 i = 0; i < n; ++i) {
    const std::uint32_t u = bits_from(x[i]);
    const std::uint32_t nearest = (u + 0x7fffU + (u >> 16 & 1U)) >> 16, quiet = u >> 16 | 0x40U;
    y[i] = static_cast<half>((u & 0x7fffffffU) > 0x7f800000U ? quiet : nearest);
  }
}

// Below zero, and neither -0 nor NaN, which stay.
inline bool is_negative(half x) { return x > 0x8000U && x <= 0xff80U; }
inline bool is_positive(half x) { return static_cast<half>(x - 1U) < 0x7f80U; }

inline void relu_half(i64 n, const half* x, half* y) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) y[i] = is_negative(x[i]) ? half{0} : x[i];
}

inline void relu_backward_half(i64 n, const half* y, const half* dy, half* dx) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) dx[i] = is_positive(y[i]) ? dy[i] : half{0};
}

// In the order of reduce_sum of f32.
inline void reduce_sum_half(i64 outer, i64 mid, i64 inner, const half* x, float* out) {
  if (inner == 1) {
    fill(mid, 0.0F, out);
    for (i64 o = 0; o < outer; ++o)
      for (i64 m = 0; m < mid; ++m) out[m] += float_from(std::uint32_t{x[o * mid + m]} << 16);
    return;
  }
  for (i64 m = 0; m < mid; ++m) {
    float lane[16] = {};
    for (i64 o = 0; o < outer; ++o) {
      const half* row = x + (o * mid + m) * inner;
      i64 i = 0;
      for (; i + 16 <= inner; i += 16)
        for (int l = 0; l < 16; ++l) lane[l] += float_from(std::uint32_t{row[i + l]} << 16);
      for (int l = 0; i < inner; ++i, ++l) lane[l] += float_from(std::uint32_t{row[i]} << 16);
    }
    out[m] = fold(lane);
  }
}
