// Each thread computes one counter of Philox at a time, which gives the numbers i, i + 16, i + 32
// and i + 48 of a block of 64. Neighbouring threads have neighbouring i. The arithmetic is that of
// ops/cpu/random.inl and log_of of ops/cpu/maths.inl.
#include "ops/cuda/kernels/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/cuda/kernel_language.hpp"

namespace troupe::cuda::kernels {
namespace {

using random_word = std::uint32_t;

constexpr int random_threads = 256;
constexpr std::int64_t most_random_blocks = 2048;  // fills the largest GPU; threads loop over the rest
constexpr int random_words = 4, random_lanes = 16, random_block = random_words * random_lanes;

// A stream, and the example of row 0.
struct random_source {
  using plain = void;
  std::uint64_t key, first_example;
  random_word a, b;
};

// The four words of counter {first_word, c1, c2, c3}.
__device__ void philox(std::uint64_t key, random_word x0, random_word x1, random_word x2, random_word x3,
                       random_word (&out)[random_words]) {
  random_word k0 = static_cast<random_word>(key), k1 = static_cast<random_word>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p = static_cast<std::uint64_t>(x0) * 0xD2511F53u, q = static_cast<std::uint64_t>(x2) * 0xCD9E8D57u;
    x0 = static_cast<random_word>(q >> 32) ^ x1 ^ k0, x1 = static_cast<random_word>(q);
    x2 = static_cast<random_word>(p >> 32) ^ x3 ^ k1, x3 = static_cast<random_word>(p);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = x0, out[1] = x1, out[2] = x2, out[3] = x3;
}

// In (0, 1), exact in f64.
__device__ double unit_number(random_word r) { return (static_cast<double>(r) + 0.5) * (1.0 / 4294967296.0); }

// log(x), 0 < x < 1 and not subnormal.
__device__ double log_of_unit(double x) {
  constexpr std::int64_t sqrt_half = 0x3fe6a09e667f3bcd;
  constexpr int mantissa = 52;
  std::int64_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  const std::int64_t e = (bits - sqrt_half) >> mantissa;
  bits -= e * (std::int64_t{1} << mantissa);
  double m = 0;
  std::memcpy(&m, &bits, sizeof m);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 21;
  p = p * z + 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  const double exponent = static_cast<double>(e), two_s = 2.0 * s;
  return exponent * 6.93147180369123816490e-01 + (two_s + (two_s * z * p + exponent * 1.90821492927058770002e-10));
}

// cos and sin of 2 pi u, 0 < u < 1, by Taylor series around the nearest multiple of pi / 2.
__device__ void cosine_and_sine(double u, double& c, double& s) {
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

// Replaces the elements v, which belong to the words r. `reads`: v is set before the call.
template <class T>
struct dropped_number {
  using plain = void;
  static constexpr bool reads = true;
  std::uint64_t threshold;
  T keep;
  __device__ void operator()(const random_word (&r)[random_words], T (&v)[random_words]) const {
    for (int k = 0; k < random_words; ++k) v[k] = r[k] >= threshold ? keep * v[k] : T(0);
  }
};
template <class T>
struct bernoulli_sample {
  using plain = void;
  static constexpr bool reads = true;
  __device__ void operator()(const random_word (&r)[random_words], T (&v)[random_words]) const {
    for (int k = 0; k < random_words; ++k) v[k] = unit_number(r[k]) < static_cast<double>(v[k]) ? T(1) : T(0);
  }
};
template <class T>
struct uniform_number {
  using plain = void;
  static constexpr bool reads = false;
  double low, high;
  __device__ void operator()(const random_word (&r)[random_words], T (&v)[random_words]) const {
    for (int k = 0; k < random_words; ++k) v[k] = static_cast<T>(low + (high - low) * unit_number(r[k]));
  }
};
// Adds: the number is added to the old value of the element.
template <class T, bool Adds>
struct normal_number {
  using plain = void;
  static constexpr bool reads = Adds;
  double mean, deviation;
  __device__ static T result(T old, double number) { return static_cast<T>(Adds ? static_cast<double>(old) + number : number); }
  __device__ void operator()(const random_word (&r)[random_words], T (&v)[random_words]) const {
    for (int k = 0; k < 2; ++k) {
      const double radius = deviation * std::sqrt(-2.0 * log_of_unit(unit_number(r[k])));
      double c = 0, s = 0;
      cosine_and_sine(unit_number(r[k + 2]), c, s);
      v[k] = result(v[k], mean + radius * c);
      v[k + 2] = result(v[k + 2], mean + radius * s);
    }
  }
};

// x, y: [rows, row_length]. counters: those with an element, in each row.
template <class T, class F>
__global__ void __launch_bounds__(random_threads)
    random_kernel(F f, random_source source, std::int64_t rows, std::int64_t row_length, std::int64_t counters, const T* x, T* y) {
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * gridDim.x;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < rows * counters; at += step) {
    const auto row = static_cast<std::uint64_t>(at) / static_cast<std::uint64_t>(counters);
    const auto counter = static_cast<std::uint64_t>(at) - row * static_cast<std::uint64_t>(counters);
    random_word r[random_words];
    philox(source.key, static_cast<random_word>(counter),
           static_cast<random_word>(source.first_example + row) + static_cast<random_word>(counter >> 32), source.a, source.b, r);
    const auto first = static_cast<std::int64_t>(counter / random_lanes * random_block + counter % random_lanes);
    const std::int64_t start = static_cast<std::int64_t>(row) * row_length;
    T v[random_words] = {};
    if constexpr (F::reads) {
      for (int k = 0; k < random_words; ++k)
        if (first + k * random_lanes < row_length) v[k] = x[start + first + k * random_lanes];
    }
    f(r, v);
    for (int k = 0; k < random_words; ++k)
      if (first + k * random_lanes < row_length) y[start + first + k * random_lanes] = v[k];
  }
}

template <class T, class F>
void launch_random(cudaStream_t stream, F f, const rng_stream& s, std::uint64_t first_example, std::int64_t rows,
                   std::int64_t row_length, const T* x, T* y) {
  if (rows == 0 || row_length == 0) return;
  const std::int64_t rest = row_length % random_block;
  const std::int64_t counters = row_length / random_block * random_lanes + std::min<std::int64_t>(rest, random_lanes);
  const std::int64_t blocks = std::min((rows * counters + random_threads - 1) / random_threads, most_random_blocks);
  launch(random_kernel<T, F>, static_cast<unsigned>(blocks), random_threads, 0, stream, f,
         random_source{s.key, first_example, s.a, s.b}, rows, row_length, counters, x, y);
}

}  // namespace

template <class T>
void dropout(cudaStream_t stream, const rng_stream& s, std::uint64_t first_example, double ratio, std::int64_t rows,
             std::int64_t row_length, const T* x, T* y) {
  const dropped_number<T> f{static_cast<std::uint64_t>(ratio * 4294967296.0), static_cast<T>(1.0 / (1.0 - ratio))};
  launch_random(stream, f, s, first_example, rows, row_length, x, y);
}

template <class T>
void sample(cudaStream_t stream, draw d, const rng_stream& s, std::uint64_t first_example, std::int64_t rows,
            std::int64_t row_length, const T* x, T* y) {
  if (d == draw::gaussian)
    launch_random(stream, normal_number<T, true>{0.0, 1.0}, s, first_example, rows, row_length, x, y);
  else
    launch_random(stream, bernoulli_sample<T>{}, s, first_example, rows, row_length, x, y);
}

template <class T>
void fill_uniform(cudaStream_t stream, const rng_stream& s, double low, double high, std::int64_t n, T* t) {
  launch_random<T>(stream, uniform_number<T>{low, high}, s, 0, 1, n, nullptr, t);
}

template <class T>
void fill_gaussian(cudaStream_t stream, const rng_stream& s, double mean, double deviation, std::int64_t n, T* t) {
  launch_random<T>(stream, normal_number<T, false>{mean, deviation}, s, 0, 1, n, nullptr, t);
}

#define TROUPE_RANDOM_KERNELS(T)                                                                                           \
  template void dropout(cudaStream_t, const rng_stream&, std::uint64_t, double, std::int64_t, std::int64_t, const T*, T*); \
  template void sample(cudaStream_t, draw, const rng_stream&, std::uint64_t, std::int64_t, std::int64_t, const T*, T*);    \
  template void fill_uniform(cudaStream_t, const rng_stream&, double, double, std::int64_t, T*);                           \
  template void fill_gaussian(cudaStream_t, const rng_stream&, double, double, std::int64_t, T*);
TROUPE_RANDOM_KERNELS(float)
TROUPE_RANDOM_KERNELS(double)
#undef TROUPE_RANDOM_KERNELS

}  // namespace troupe::cuda::kernels
