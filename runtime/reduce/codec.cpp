#include "runtime/reduce/codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/bf16.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t all_values = std::numeric_limits<std::uint32_t>::max();  // in place of the count: all values follow
constexpr float nan32 = std::numeric_limits<float>::quiet_NaN();

template <class V>
void write(std::byte*& at, const V& value) {
  std::memcpy(at, &value, sizeof value);
  at += sizeof value;
}
template <class V>
V read(const std::byte*& at) {
  V value;
  std::memcpy(&value, at, sizeof value);
  at += sizeof value;
  return value;
}

// --- fp16: IEEE 754 binary16

std::uint16_t to_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const auto magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return sign | 0x7e00U;
  if (magnitude == 0x7f800000U) return sign | 0x7c00U;
  if (magnitude >= 0x477ff000U) return sign | 0x7bffU;  // would round to infinity: the largest finite number instead
  if (magnitude < 0x33000001U) return sign;             // at most half of the smallest subnormal number: 0
  const auto exponent = static_cast<int>(magnitude >> 23);
  const auto fraction = (magnitude & 0x7fffffU) | 0x800000U;
  const int drop = exponent >= 113 ? 13 : 126 - exponent;  // 113: exponent of the smallest normal number
  auto kept = fraction >> drop;
  const auto rest = fraction & ((1U << drop) - 1), half = 1U << (drop - 1);
  if (rest > half || (rest == half && (kept & 1U))) ++kept;
  // The hidden bit of a normal number adds 1 to the exponent field. A carry out of the fraction
  // increments the exponent, as it must.
  return sign | static_cast<std::uint16_t>(exponent >= 113 ? kept + (static_cast<unsigned>(exponent - 113) << 10) : kept);
}

float from_half(std::uint16_t h) {
  const auto sign = static_cast<std::uint32_t>(h & 0x8000U) << 16;
  const auto exponent = static_cast<std::uint32_t>(h >> 10 & 0x1fU), fraction = static_cast<std::uint32_t>(h & 0x3ffU);
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13);
  if (exponent == 0) {
    const float small = static_cast<float>(fraction) * 0x1p-24F;
    return sign ? -small : small;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

std::uint16_t to_brain(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto magnitude = bits & 0x7fffffffU;
  if (magnitude >= 0x7f7f8000U && magnitude < 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16 & 0x8000U) | 0x7f7fU);
  return to_bf16(x).bits;
}

template <std::uint16_t (*To)(float), class T>
void encode_halves(const T* a, std::int64_t n, std::byte* at) {
  for (std::int64_t i = 0; i < n; ++i) {
    auto x = static_cast<float>(a[i]);
    if (std::isinf(x) && std::isfinite(a[i])) x = std::copysign(std::numeric_limits<float>::max(), x);
    write(at, To(x));
  }
}
template <float (*From)(std::uint16_t), class T>
void decode_halves(const std::byte* at, T* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(From(read<std::uint16_t>(at)));
}
float from_brain(std::uint16_t b) { return to_float(bf16{b}); }

// --- codecs with a scale for each chunk

template <class T>
float largest(const T* a, std::int64_t n) {
  T m = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(a[i])) return nan32;
    m = std::max(m, std::abs(a[i]));
  }
  return static_cast<float>(std::min(m, static_cast<T>(std::numeric_limits<float>::max())));
}

template <class T>
void encode_int8(const T* a, std::int64_t n, std::byte*& at) {
  const float m = largest(a, n);
  write(at, m);
  const T scale = m > 0 ? T{127} / static_cast<T>(m) : T{0};  // 0 if m is NaN
  for (std::int64_t i = 0; i < n; ++i) {
    const T q = scale > 0 && std::isfinite(scale) ? std::nearbyint(std::clamp(a[i] * scale, T{-127}, T{127})) : T{0};
    write(at, static_cast<std::int8_t>(q));
  }
}
template <class T>
void decode_int8(const std::byte*& at, T* to, std::int64_t n) {
  const auto m = static_cast<T>(read<float>(at));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto q = static_cast<T>(read<std::int8_t>(at));
    to[i] = m * q / T{127};
  }
}

// The code c whose value m 2^(c-7) is nearest to |x|; 0 if |x| is below half of the smallest value.
template <class T>
unsigned e3m0_code(T x, T m) {
  const T r = std::abs(x) / m;
  if (!(r >= T{0x1p-7})) return 0;
  int exponent = 0;
  const T f = std::frexp(r, &exponent);                        // r = f 2^exponent, f in [1/2, 1)
  const int nearest = f >= T{0.75} ? exponent : exponent - 1;  // the midpoint of 2^(e-1) and 2^e is 0.75 2^e
  return static_cast<unsigned>(std::clamp(nearest + 7, 1, 7));
}
template <class T>
void encode_e3m0(const T* a, std::int64_t n, std::byte*& at) {
  const float m = largest(a, n);
  write(at, m);
  for (std::int64_t i = 0; i < n; i += 2) {
    unsigned pair = 0;
    for (std::int64_t k = i; k < std::min(i + 2, n) && m > 0; ++k) {
      const auto code = e3m0_code(a[k], static_cast<T>(m));
      pair |= (code | (code && std::signbit(a[k]) ? 8U : 0U)) << (k == i ? 0 : 4);
    }
    write(at, static_cast<std::uint8_t>(pair));
  }
}
template <class T>
void decode_e3m0(const std::byte*& at, T* to, std::int64_t n) {
  const auto m = static_cast<T>(read<float>(at));
  T values[16];
  for (unsigned c = 0; c < 8; ++c) {
    values[c] = c ? std::ldexp(m, static_cast<int>(c) - 7) : m * T{0};
    values[c + 8] = -values[c];
  }
  for (std::int64_t i = 0; i < n; i += 2) {
    const auto pair = read<std::uint8_t>(at);
    to[i] = values[pair & 15U];
    if (i + 1 < n) to[i + 1] = values[pair >> 4];
  }
}

template <class T>
void encode_onebit(const T* a, std::int64_t n, std::byte*& at) {
  double sums[2] = {0, 0};
  std::int64_t counts[2] = {0, 0};
  for (std::int64_t i = 0; i < n; ++i) {
    const int negative = a[i] < 0 ? 1 : 0;
    sums[negative] += static_cast<double>(a[i]);
    ++counts[negative];
  }
  const bool finite = std::isfinite(sums[0]) && std::isfinite(sums[1]);
  for (int k = 0; k < 2; ++k) {
    const double mean = counts[k] ? sums[k] / static_cast<double>(counts[k]) : 0.0;
    constexpr double most = std::numeric_limits<float>::max();
    write(at, finite ? static_cast<float>(std::clamp(mean, -most, most)) : nan32);
  }
  for (std::int64_t i = 0; i < n; i += 8) {
    unsigned bits = 0;
    for (std::int64_t k = i; k < std::min(i + 8, n); ++k) bits |= (a[k] < 0 ? 1U : 0U) << (k - i);
    write(at, static_cast<std::uint8_t>(bits));
  }
}
template <class T>
void decode_onebit(const std::byte*& at, T* to, std::int64_t n) {
  T means[2];
  for (auto& m : means) m = static_cast<T>(read<float>(at));
  for (std::int64_t i = 0; i < n; i += 8) {
    const unsigned bits = read<std::uint8_t>(at);
    for (std::int64_t k = i; k < std::min(i + 8, n); ++k) to[k] = means[bits >> (k - i) & 1U];
  }
}

template <class T>
using chunk_encoder = void (*)(const T*, std::int64_t, std::byte*&);
template <class T>
using chunk_decoder = void (*)(const std::byte*&, T*, std::int64_t);

template <class T>
void by_chunk(chunk_encoder<T> f, codec_kind k, const T* a, std::int64_t n, std::byte* at) {
  for (std::int64_t i = 0, step = codec_chunk(k); i < n; i += step) f(a + i, std::min(step, n - i), at);
}
template <class T>
void by_chunk(chunk_decoder<T> f, codec_kind k, const std::byte* at, T* to, std::int64_t n) {
  for (std::int64_t i = 0, step = codec_chunk(k); i < n; i += step) f(at, to + i, std::min(step, n - i));
}

// --- codecs that send some of the values

// Values that are not finite count as larger than all finite ones.
template <class T>
T magnitude(T x) {
  return std::isfinite(x) ? std::abs(x) : std::numeric_limits<T>::infinity();
}

template <class T>
std::vector<std::uint32_t> largest_of(const T* a, std::int64_t n, std::int64_t k) {
  std::vector<T> by_size(static_cast<std::size_t>(n));
  std::transform(a, a + n, by_size.begin(), magnitude<T>);
  const auto last = by_size.begin() + (k - 1);
  std::nth_element(by_size.begin(), last, by_size.end(), std::greater<T>{});
  const T least = *last;
  auto ties = k - std::count_if(by_size.begin(), by_size.end(), [least](T m) { return m > least; });
  std::vector<std::uint32_t> chosen;
  chosen.reserve(static_cast<std::size_t>(k));
  for (std::int64_t i = 0; i < n; ++i)
    if (const T m = magnitude(a[i]); m > least || (m == least && ties-- > 0)) chosen.push_back(static_cast<std::uint32_t>(i));
  return chosen;
}

template <class T>
std::vector<std::uint32_t> above(const T* a, std::int64_t n, double threshold) {
  std::vector<std::uint32_t> chosen;
  for (std::int64_t i = 0; i < n; ++i)
    if (static_cast<double>(magnitude(a[i])) >= threshold) chosen.push_back(static_cast<std::uint32_t>(i));
  return chosen;
}

template <class T>
std::vector<std::byte> encode_some(const T* a, std::int64_t n, const std::vector<std::uint32_t>& chosen) {
  const auto one = sizeof(std::uint32_t) + sizeof(T), whole = static_cast<std::size_t>(n) * sizeof(T);
  const bool some = chosen.size() * one < whole;
  std::vector<std::byte> bytes(sizeof(std::uint32_t) + (some ? chosen.size() * one : whole));
  auto* at = bytes.data();
  write(at, some ? static_cast<std::uint32_t>(chosen.size()) : all_values);
  if (!some) {
    std::memcpy(at, a, whole);
    return bytes;
  }
  for (auto i : chosen) write(at, i);
  for (auto i : chosen) write(at, a[i]);
  return bytes;
}

template <class T>
bool decode_some(const std::byte* at, std::size_t bytes, T* to, std::int64_t n) {
  if (bytes < sizeof(std::uint32_t)) return false;
  bytes -= sizeof(std::uint32_t);
  const auto count = read<std::uint32_t>(at);
  if (count == all_values) {
    if (bytes != static_cast<std::size_t>(n) * sizeof(T)) return false;
    if (n > 0) std::memcpy(to, at, bytes);
    return true;
  }
  if (count > n || bytes != count * (sizeof(std::uint32_t) + sizeof(T))) return false;
  std::fill(to, to + n, T{0});
  const auto* values = at + count * sizeof(std::uint32_t);
  std::int64_t before = -1;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::int64_t index = read<std::uint32_t>(at);
    if (index <= before || index >= n) return false;
    to[index] = read<T>(values);
    before = index;
  }
  return true;
}

template <class T>
std::vector<std::byte> encoded_of(const codec_spec& s, const T* a, std::int64_t n) {
  if (s.kind == codec_kind::topk)
    return encode_some(a, n, n > 0 ? largest_of(a, n, values_sent(s, n)) : std::vector<std::uint32_t>{});
  if (s.kind == codec_kind::threshold) return encode_some(a, n, above(a, n, s.threshold));
  std::vector<std::byte> bytes(static_cast<std::size_t>(encoded_bytes(s, n, dtype_of<T>)));
  switch (s.kind) {
    case codec_kind::fp16: encode_halves<to_half>(a, n, bytes.data()); break;
    case codec_kind::bf16: encode_halves<to_brain>(a, n, bytes.data()); break;
    case codec_kind::int8: by_chunk<T>(encode_int8<T>, s.kind, a, n, bytes.data()); break;
    case codec_kind::e3m0: by_chunk<T>(encode_e3m0<T>, s.kind, a, n, bytes.data()); break;
    case codec_kind::onebit: by_chunk<T>(encode_onebit<T>, s.kind, a, n, bytes.data()); break;
    default:
      if (n > 0) std::memcpy(bytes.data(), a, bytes.size());
  }
  return bytes;
}

}  // namespace

template <class T>
std::vector<std::byte> encode(const codec_spec& s, const T* sum, T* residual, std::int64_t n) {
  std::vector<T> a(sum, sum + n);
  bool finite = true;
  for (std::int64_t i = 0; i < n; ++i) {
    a[static_cast<std::size_t>(i)] += residual[i];
    finite = finite && std::isfinite(a[static_cast<std::size_t>(i)]);
  }
  auto bytes = encoded_of(s, a.data(), n);
  if (!finite) return bytes;
  std::vector<T> sent(a.size());
  decode(s, bytes.data(), bytes.size(), sent.data(), n);
  for (std::int64_t i = 0; i < n; ++i) residual[i] = a[static_cast<std::size_t>(i)] - sent[static_cast<std::size_t>(i)];
  return bytes;
}

template <class T>
bool decode(const codec_spec& s, const std::byte* from, std::size_t bytes, T* to, std::int64_t n) {
  if (s.kind == codec_kind::topk || s.kind == codec_kind::threshold) return decode_some(from, bytes, to, n);
  if (bytes != static_cast<std::size_t>(encoded_bytes(s, n, dtype_of<T>))) return false;
  switch (s.kind) {
    case codec_kind::fp16: decode_halves<from_half>(from, to, n); break;
    case codec_kind::bf16: decode_halves<from_brain>(from, to, n); break;
    case codec_kind::int8: by_chunk<T>(decode_int8<T>, s.kind, from, to, n); break;
    case codec_kind::e3m0: by_chunk<T>(decode_e3m0<T>, s.kind, from, to, n); break;
    case codec_kind::onebit: by_chunk<T>(decode_onebit<T>, s.kind, from, to, n); break;
    default:
      if (n > 0) std::memcpy(to, from, bytes);
  }
  return true;
}

template std::vector<std::byte> encode(const codec_spec&, const float*, float*, std::int64_t);
template std::vector<std::byte> encode(const codec_spec&, const double*, double*, std::int64_t);
template bool decode(const codec_spec&, const std::byte*, std::size_t, float*, std::int64_t);
template bool decode(const codec_spec&, const std::byte*, std::size_t, double*, std::int64_t);

}  // namespace troupe
