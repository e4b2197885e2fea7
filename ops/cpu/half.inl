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
