// Philox 4x32-10 (Salmon et al. 2011), sixteen counters at a time. Number i of a stream is word (i % 64) / 16 of counter
// (i / 64) * 16 + i % 16, so that the four words of sixteen counters lie side by side.

constexpr int random_block = 64;
using word = std::uint32_t;

// Numbers [64 block, 64 block + 64) of the stream whose counter is {., c1, c2, c3}.
inline void philox(std::uint64_t key, std::uint64_t block, word c1, word c2, word c3, word (&out)[random_block]) {
  word x0[16], x1[16], x2[16], x3[16];
  const std::uint64_t first = block * 16;
  for (word l = 0; l < 16; ++l) {
    x0[l] = static_cast<word>(first) + l;  // a multiple of 16 plus l: no carry
    x1[l] = c1 + static_cast<word>(first >> 32);
    x2[l] = c2;
    x3[l] = c3;
  }
  word k0 = static_cast<word>(key), k1 = static_cast<word>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int l = 0; l < 16; ++l) {
      const std::uint64_t p = std::uint64_t(0xD2511F53u) * x0[l];
      const std::uint64_t q = std::uint64_t(0xCD9E8D57u) * x2[l];
      const word y0 = static_cast<word>(q >> 32) ^ x1[l] ^ k0;
      const word y2 = static_cast<word>(p >> 32) ^ x3[l] ^ k1;
      x1[l] = static_cast<word>(q);
      x3[l] = static_cast<word>(p);
      x0[l] = y0;
      x2[l] = y2;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int l = 0; l < 16; ++l) {
    out[l] = x0[l];
    out[16 + l] = x1[l];
    out[32 + l] = x2[l];
    out[48 + l] = x3[l];
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

// In (0, 1), exact in f64: f32 and f64 runs start from the same numbers, up to the rounding to f32.
inline double unit(word r) { return (static_cast<double>(r) + 0.5) * (1.0 / 4294967296.0); }

template <class T>
void fill_uniform(const rng_stream& s, double low, double high, i64 n, T* x) {
  fill_random(s, n, x, [=](const word* r, double* v) {
    for (int j = 0; j < random_block; ++j) v[j] = low + (high - low) * unit(r[j]);
  });
}

// cos and sin of 2 pi u, u in (0, 1), by Taylor series on the octant nearest to a multiple of pi / 2.
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
