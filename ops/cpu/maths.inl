// exp, log and related functions in plain arithmetic. They can be vectorised, and give the same
// bits on every instruction set (no fma, no libm). Errors are below 2 units in the last place in
// the ranges that nets use.

inline i64 largest(i64 a, i64 b) { return a > b ? a : b; }
inline i64 smallest(i64 a, i64 b) { return a < b ? a : b; }

template <class T>
struct bits_of;
template <>
struct bits_of<float> {
  using type = std::int32_t;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr type sqrt_half = 0x3f3504f3;
  static constexpr float magic = 12582912.0f, low = -104.0f, high = 89.0f, smallest = 1.17549435e-38f;  // magic: 1.5 * 2^23
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
};
template <>
struct bits_of<double> {
  using type = std::int64_t;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr type sqrt_half = 0x3fe6a09e667f3bcd;
  static constexpr double magic = 6755399441055744.0, low = -746.0, high = 710.0, smallest = 2.2250738585072014e-308;
  static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
};

template <class T>
inline typename bits_of<T>::type to_bits(T x) {
  return __builtin_bit_cast(typename bits_of<T>::type, x);
}
template <class T>
inline T from_bits(typename bits_of<T>::type x) {
  return __builtin_bit_cast(T, x);
}

template <class T>
inline T square_root(T x) {
  if constexpr (sizeof(T) == 4)
    return __builtin_sqrtf(x);
  else
    return __builtin_sqrt(x);
}

// exp(x) = 2^n exp(r), |r| <= ln 2 / 2, exp(r) by its Taylor series.
template <class T>
inline T exp_of(T x) {
  using b = bits_of<T>;
  using int_t = typename b::type;
  x = x > b::high ? b::high : x;
  x = x < b::low ? b::low : x;
  const T shifted = x * T(1.44269504088896340736) + b::magic;
  const T n = shifted - b::magic;
  const T r = (x - n * b::ln2_high) - n * b::ln2_low;
  T p;
  if constexpr (sizeof(T) == 4) {
    p = T(1.0 / 5040);
    p = p * r + T(1.0 / 720);
  } else {
    p = T(1.0 / 6227020800.0);
    p = p * r + T(1.0 / 479001600.0);
    p = p * r + T(1.0 / 39916800.0);
    p = p * r + T(1.0 / 3628800.0);
    p = p * r + T(1.0 / 362880.0);
    p = p * r + T(1.0 / 40320.0);
    p = p * r + T(1.0 / 5040);
    p = p * r + T(1.0 / 720);
  }
  p = p * r + T(1.0 / 120);
  p = p * r + T(1.0 / 24);
  p = p * r + T(1.0 / 6);
  p = p * r + T(0.5);
  p = p * r + T(1);
  p = p * r + T(1);
  const int_t e = to_bits(shifted) - to_bits(b::magic);
  const int_t half = e >> 1;
  return (p * from_bits<T>((half + b::bias) << b::mantissa)) * from_bits<T>((e - half + b::bias) << b::mantissa);
}

// log(x) = e ln 2 + log(m), m in [sqrt(1/2), sqrt(2)), log(m) = 2 atanh((m - 1) / (m + 1)).
template <class T>
inline T log_of(T x) {
  using b = bits_of<T>;
  using int_t = typename b::type;
  const bool small = x < b::smallest;
  const T scaled = small ? x * T(int_t(1) << (b::mantissa + 1)) : x;
  const int_t bits = to_bits(scaled) & ~(int_t(1) << (8 * sizeof(T) - 1));  // bits of |x|, so that nothing overflows
  const int_t e = (bits - b::sqrt_half) >> b::mantissa;
  const T m = from_bits<T>(bits - (e << b::mantissa));
  const T s = (m - T(1)) / (m + T(1));
  const T z = s * s;
  T p;
  if constexpr (sizeof(T) == 4) {
    p = T(1.0 / 9);
  } else {
    p = T(1.0 / 21);
    p = p * z + T(1.0 / 19);
    p = p * z + T(1.0 / 17);
    p = p * z + T(1.0 / 15);
    p = p * z + T(1.0 / 13);
    p = p * z + T(1.0 / 11);
    p = p * z + T(1.0 / 9);
  }
  p = p * z + T(1.0 / 7);
  p = p * z + T(1.0 / 5);
  p = p * z + T(1.0 / 3);
  const T exponent = T(e) - (small ? T(b::mantissa + 1) : T(0));
  const T two_s = T(2) * s;
  const T y = exponent * b::ln2_high + (two_s + (two_s * z * p + exponent * b::ln2_low));
  const T infinity = T(__builtin_inf());
  const T positive = x < infinity ? y : x;  // +inf and NaN map to themselves
  return x > T(0) ? positive : (x == T(0) ? -infinity : T(__builtin_nan("")));
}

template <class T>
inline T sigmoid_of(T x) {
  return T(1) / (T(1) + exp_of(-x));
}

// tanh(x) = (1 - e) / (1 + e), e = exp(-2 |x|). Near 0 by its series, where the quotient would lose
// digits to cancellation.
template <class T>
inline T tanh_of(T x) {
  const T a = x < T(0) ? -x : x;
  const T e = exp_of(T(-2) * a);
  const T far = (T(1) - e) / (T(1) + e);
  const T z = a * a;
  const T near = a * (T(1) + z * (T(-1.0 / 3) + z * (T(2.0 / 15) + z * (T(-17.0 / 315) + z * T(62.0 / 2835)))));
  const T y = a < (sizeof(T) == 4 ? T(0.09) : T(0.005)) ? near : far;
  return x < T(0) ? -y : (x == x ? y : x);
}

// x^-1/2 for x > 0. f32: Newton's method from the usual first guess, three times as fast as root
// and quotient.
template <class T>
inline T inverse_root(T x) {
  if constexpr (sizeof(T) == 4) {
    T y = from_bits<T>(0x5f375a86 - (to_bits(x) >> 1));
    const T h = T(0.5) * x;
    for (int i = 0; i < 3; ++i) y = y * (T(1.5) - h * y * y);
    return y;
  } else {
    return T(1) / square_root(x);
  }
}
// x^-beta for x > 0; the common exponent 0.75 without exp and log.
template <class T>
inline T power_075(T x) {
  const T r = inverse_root(x);
  return r * r * inverse_root(r);  // r sqrt(r)
}
template <class T>
inline T power_minus(T x, T beta) {
  return exp_of(-beta * log_of(x));
}

// The normal distribution: cdf(x) = erfc(-x / sqrt 2) / 2. With a = |x| / sqrt 2, erfc(a) =
// exp(-a^2) p(u) / (1 + 2 a), p a polynomial in u = (a - k) / (a + k), k = 3.75. The form is that
// of Shepherd and Laframboise 1981; the coefficients are interpolated at Chebyshev nodes.
inline float erfc_series(float u) {
  constexpr float c[] = {1.23751263F,     -0.140240659F,   0.00358543802F, 0.0822784339F,  -0.108804565F,
                         0.0922906917F,   -0.058688252F,   0.0284094304F,  -0.0097646905F, 0.00167573425F,
                         0.000325388465F, -0.00022405205F, 2.36348201e-5F};
  float p = c[12];
  for (int i = 11; i >= 0; --i) p = p * u + c[i];
  return p;
}
inline double erfc_series(double u) {
  constexpr double c[] = {1.2375126308378275,     -0.14024059858554701,   0.0035854154854795752,  0.082276738490149773,
                          -0.10880393014246645,   0.092304321160258936,   -0.058693398576310613,  0.028362277420377334,
                          -0.0097465796859621716, 0.0017556258434318641,  0.00029371439057885598, -0.00029015404203352704,
                          5.164649341002877e-5,   2.2384138525656756e-5,  -1.1437980374495534e-5, -9.7338751674941429e-7,
                          1.7419011945194366e-6,  -5.7410760730139157e-8, -2.4851108650210706e-7, 2.3398534313040897e-8,
                          3.1953986120578181e-8,  -3.7981897977362072e-9, -2.6185201565031448e-9, 3.2052623379289157e-10};
  double p = c[23];
  for (int i = 22; i >= 0; --i) p = p * u + c[i];
  return p;
}
template <class T>
inline T normal_cdf(T x) {
  const T wide = (x < T(0) ? -x : x) * T(0.70710678118654752440);
  const T a = wide > T(100) ? T(100) : wide;  // keeps infinity finite
  const T tail = T(0.5) * exp_of(-a * a) * erfc_series((a - T(3.75)) / (a + T(3.75))) / (T(1) + T(2) * a);
  return x < T(0) ? tail : T(1) - tail;
}
template <class T>
inline T normal_density(T x) {
  return T(0.39894228040143267794) * exp_of(T(-0.5) * x * x);
}

// Between 0 and `most`; NaN stays.
template <class T>
inline T clamped(T x, T most) {
  const T low = x < T(0) ? T(0) : x;
  return low > most ? most : low;
}
template <class T>
inline T silu_slope(T x) {
  const T s = sigmoid_of(x);
  return s * (T(1) + x * (T(1) - s));
}
template <class T>
inline T hard_swish_slope(T x) {
  const T t = x * T(1.0 / 6) + T(0.5);
  const T inside = x * T(1.0 / 3) + T(0.5);
  return t > T(0) ? (t < T(1) ? inside : T(1)) : T(0);
}

// gelu by tanh: x/2 (1 + tanh(inner)), inner = sqrt(2/pi) (x + 0.044715 x^3).
template <class T>
inline T gelu_inner(T x) {
  return T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
}
template <class T>
inline T gelu_tanh_slope(T x) {
  const T t = tanh_of(gelu_inner(x));
  const T inner_slope = T(0.79788456080286535588) * (T(1) + T(3 * 0.044715) * x * x);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner_slope;
}
