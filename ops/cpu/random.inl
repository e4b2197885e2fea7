// Philox 4x32-10 (Salmon et al. 2011), sixteen counters at a time. Number i of a stream is word (i
// % 64) / 16 of counter (i / 64) * 16 + i % 16, so that equal words of sixteen counters are
// adjacent.

constexpr int random_block = 64;
using word = std::uint32_t;

// High and low parts of the products of all words with m.
typedef std::uint64_t long_word_lanes __attribute__((vector_size(TROUPE_VECTOR_BYTES)));
inline long_word_lanes even_products(long_word_lanes x, word m) {
#if TROUPE_VECTOR_BYTES == 64
  // A masked multiplication: GCC 12 warns about uninitialised values of its own header otherwise.
  return (long_word_lanes)_mm512_maskz_mul_epu32(0xff, (__m512i)x, _mm512_set1_epi32(static_cast<int>(m)));
#elif TROUPE_VECTOR_BYTES == 32
  return (long_word_lanes)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi32(static_cast<int>(m)));
#else
  return (x & 0xffffffffU) * m;
#endif
}
inline void multiply(word_lanes x, word m, word_lanes& high, word_lanes& low) {
  const long_word_lanes even = even_products((long_word_lanes)x, m), odd = even_products((long_word_lanes)x >> 32, m);
  high = (word_lanes)((even >> 32) | (odd & 0xffffffff00000000U));
  low = (word_lanes)((even & 0xffffffffU) | (odd << 32));
}

// Numbers [64 block, 64 block + 64) of the stream whose counter is {., c1, c2, c3}.
inline void philox(std::uint64_t key, std::uint64_t block, word c1, word c2, word c3, word (&out)[random_block]) {
  constexpr int lanes = lanes_of<float>;
  const std::uint64_t first = block * 16;
  for (int at = 0; at < 16; at += lanes) {
    word_lanes x0, x1 = word_lanes{} + (c1 + static_cast<word>(first >> 32)), x2 = word_lanes{} + c2, x3 = word_lanes{} + c3;
    // `first` is a multiple of 16: no carry.
    for (int l = 0; l < lanes; ++l) x0[l] = static_cast<word>(first) + static_cast<word>(at + l);
    word k0 = static_cast<word>(key), k1 = static_cast<word>(key >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      word_lanes p_high, p_low, q_high, q_low;
      multiply(x0, 0xD2511F53u, p_high, p_low);
      multiply(x2, 0xCD9E8D57u, q_high, q_low);
      x0 = q_high ^ x1 ^ k0, x1 = q_low;
      x2 = p_high ^ x3 ^ k1, x3 = p_low;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    __builtin_memcpy(out + at, &x0, sizeof x0);
    __builtin_memcpy(out + 16 + at, &x1, sizeof x1);
    __builtin_memcpy(out + 32 + at, &x2, sizeof x2);
    __builtin_memcpy(out + 48 + at, &x3, sizeof x3);
  }
}

template <class T>
void dropout(const rng_stream& s, std::uint64_t first_example, double ratio, i64 rows, i64 row_length, const T* x, T* y) {
  const std::uint64_t threshold = static_cast<std::uint64_t>(ratio * 4294967296.0);
  const T keep = static_cast<T>(1.0 / (1.0 - ratio));
  word r[random_block];
  for (i64 row = 0; row < rows; ++row) {
    const word example = static_cast<word>(first_example + static_cast<std::uint64_t>(row));
    for (i64 i = 0; i < row_length; i += random_block) {
      philox(s.key, static_cast<std::uint64_t>(i / random_block), example, s.a, s.b, r);
      const i64 n = smallest(random_block, row_length - i);
#pragma GCC ivdep
      for (i64 j = 0; j < n; ++j) y[i + j] = r[j] >= threshold ? keep * x[i + j] : T(0);
    }
    x += row_length;
    y += row_length;
  }
}

template <class T, class F>
inline void fill_random(const rng_stream& s, i64 n, T* x, F f) {
  word r[random_block];
  for (i64 i = 0; i < n; i += random_block) {
    philox(s.key, static_cast<std::uint64_t>(i / random_block), 0, s.a, s.b, r);
    double v[random_block];
    f(r, v);
    for (i64 j = 0; j < smallest(random_block, n - i); ++j) x[i + j] = static_cast<T>(v[j]);
  }
}

// In (0, 1), exact in f64. f32 and f64 runs use the same numbers, up to rounding to f32.
inline double unit(word r) { return (static_cast<double>(r) + 0.5) * (1.0 / 4294967296.0); }

template <class T>
void fill_uniform(const rng_stream& s, double low, double high, i64 n, T* x) {
  fill_random(s, n, x, [=](const word* r, double* v) {
    for (int j = 0; j < random_block; ++j) v[j] = low + (high - low) * unit(r[j]);
  });
}

// cos and sin of 2 pi u, u in (0, 1), by Taylor series around the nearest multiple of pi / 2.
inline void turn(double u, double& c, double& s) {
  const int quarter = static_cast<int>(u * 4.0 + 0.5);
  const double t = (u * 4.0 - quarter) * 1.57079632679489661923;  // |t| <= pi / 4
  const double z = t * t;
  double a = -1.0 / 87178291200.0;
  a = a * z + 1.0 / 479001600.0;
  a = a * z - 1.0 / 3628800.0;
  a = a * z + 1.0 / 40320.0;
  a = a * z - 1.0 / 720.0;
  a = a * z + 1.0 / 24.0;
  a = a * z - 0.5;
  a = a * z + 1.0;
  double b = 1.0 / 6227020800.0;
  b = b * z - 1.0 / 39916800.0;
  b = b * z + 1.0 / 362880.0;
  b = b * z - 1.0 / 5040.0;
  b = b * z + 1.0 / 120.0;
  b = b * z - 1.0 / 6.0;
  b = (b * z + 1.0) * t;
  const bool odd = (quarter & 1) != 0;
  const double p = odd ? b : a, q = odd ? a : b;
  c = quarter == 1 || quarter == 2 ? -p : p;
  s = quarter == 2 || quarter == 3 ? -q : q;
}

// Box and Muller 1958: numbers j and 32 + j of a block of 64 make a pair.
inline void normal_block(const word* r, double mean, double deviation, double* v) {
  for (int j = 0; j < random_block / 2; ++j) {
    const double radius = deviation * square_root(-2.0 * log_of(unit(r[j])));
    double c, d;
    turn(unit(r[32 + j]), c, d);
    v[j] = mean + radius * c;
    v[32 + j] = mean + radius * d;
  }
}

template <class T>
void fill_gaussian(const rng_stream& s, double mean, double deviation, i64 n, T* x) {
  fill_random(s, n, x, [=](const word* r, double* v) { normal_block(r, mean, deviation, v); });
}

template <class T>
void sample(bool gaussian, const rng_stream& s, std::uint64_t first_example, i64 rows, i64 row_length, const T* x, T* y) {
  word r[random_block];
  double v[random_block];
  for (i64 row = 0; row < rows; ++row, x += row_length, y += row_length) {
    const word example = static_cast<word>(first_example + static_cast<std::uint64_t>(row));
    for (i64 i = 0; i < row_length; i += random_block) {
      philox(s.key, static_cast<std::uint64_t>(i / random_block), example, s.a, s.b, r);
      const i64 n = smallest(random_block, row_length - i);
      if (gaussian) {
        normal_block(r, 0.0, 1.0, v);
        for (i64 j = 0; j < n; ++j) y[i + j] = static_cast<T>(static_cast<double>(x[i + j]) + v[j]);
      } else {
        for (i64 j = 0; j < n; ++j) y[i + j] = unit(r[j]) < static_cast<double>(x[i + j]) ? T(1) : T(0);
      }
    }
  }
}
