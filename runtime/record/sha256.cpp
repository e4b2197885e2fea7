#include "runtime/record/sha256.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little,
              "raw tensor bytes are hashed and written in memory order, which must be little-endian");

// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr std::array<std::uint32_t, 64> k = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using std::rotr;

void compress(std::array<std::uint32_t, 8>& state, const std::uint8_t* p, std::size_t blocks) {
  static const auto chosen = detail::sha256_has_hardware() ? detail::sha256_blocks_hardware : detail::sha256_blocks_portable;
  chosen(state, p, blocks);
}

}  // namespace

namespace detail {

void sha256_blocks_portable(std::array<std::uint32_t, 8>& state, const std::uint8_t* p, std::size_t blocks) {
  for (; blocks > 0; --blocks, p += 64) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t t = 0; t < 16; ++t) {
      const auto* b = p + 4 * t;
      w[t] = (std::uint32_t{b[0]} << 24) | (std::uint32_t{b[1]} << 16) | (std::uint32_t{b[2]} << 8) | b[3];
    }
    for (std::size_t t = 16; t < 64; ++t) {
      const auto s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
      const auto s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t t = 0; t < 64; ++t) {
      const auto t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + k[t] + w[t];
      const auto t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<std::uint32_t, 8> add = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state[i] += add[i];
  }
}

#if defined(__x86_64__)

bool sha256_has_hardware() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & (1u << 29)) == 0) return false;
  return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1");
}

// The instructions keep the state as (a b e f) and (c d g h), and compute two rounds at a time.
__attribute__((target("sha,ssse3,sse4.1"))) void sha256_blocks_hardware(std::array<std::uint32_t, 8>& state, const std::uint8_t* p,
                                                                        std::size_t blocks) {
  const auto reversed = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const auto load = [](const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); };
  const auto badc = _mm_shuffle_epi32(load(&state[0]), 0xb1);
  const auto efgh = _mm_shuffle_epi32(load(&state[4]), 0x1b);
  auto abef = _mm_alignr_epi8(badc, efgh, 8);
  auto cdgh = _mm_blend_epi16(efgh, badc, 0xf0);
  for (; blocks > 0; --blocks, p += 64) {
    const auto abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (std::size_t i = 0; i < 16; ++i) {
      auto& next = w[i & 3];
      if (i < 4) {
        next = _mm_shuffle_epi8(load(p + 16 * i), reversed);
      } else {
        const auto &w1 = w[(i + 1) & 3], &w2 = w[(i + 2) & 3], &w3 = w[(i + 3) & 3];
        next = _mm_add_epi32(_mm_sha256msg1_epu32(next, w1), _mm_alignr_epi8(w3, w2, 4));
        next = _mm_sha256msg2_epu32(next, w3);
      }
      const auto rounds = _mm_add_epi32(next, load(&k[4 * i]));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, rounds);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(rounds, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const auto feba = _mm_shuffle_epi32(abef, 0x1b);
  const auto dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[0]), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool sha256_has_hardware() { return false; }
void sha256_blocks_hardware(std::array<std::uint32_t, 8>& state, const std::uint8_t* p, std::size_t blocks) {
  sha256_blocks_portable(state, p, blocks);
}

#endif

}  // namespace detail

void sha256::update(const void* data, std::size_t bytes) {
  if (bytes == 0) return;
  const auto* p = static_cast<const std::uint8_t*>(data);
  const auto held = static_cast<std::size_t>(bytes_ % 64);
  bytes_ += bytes;
  if (held > 0) {
    const auto n = std::min(bytes, 64 - held);
    std::memcpy(block_.data() + held, p, n);
    if (held + n < 64) return;
    compress(state_, block_.data(), 1);
    p += n;
    bytes -= n;
  }
  compress(state_, p, bytes / 64);
  if (bytes % 64 > 0) std::memcpy(block_.data(), p + (bytes - bytes % 64), bytes % 64);
}

sha256::digest sha256::finish() {
  const auto bits = bytes_ * 8;
  constexpr std::array<std::uint8_t, 64> padding = {0x80};
  const auto held = static_cast<std::size_t>(bytes_ % 64);
  update(padding.data(), held < 56 ? 56 - held : 120 - held);
  std::array<std::uint8_t, 8> length{};
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<std::uint8_t>(bits >> (56 - 8 * i));
  update(length.data(), length.size());
  digest out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

std::string hex_of(const std::uint8_t* data, std::size_t bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    out += digits[data[i] >> 4];
    out += digits[data[i] & 15];
  }
  return out;
}

std::string sha256_hex(const void* data, std::size_t bytes) {
  sha256 h;
  h.update(data, bytes);
  const auto d = h.finish();
  return hex_of(d.data(), d.size());
}

std::string weights_sha256(const std::vector<std::pair<std::string, tensor>>& named) {
  sha256 h;
  for (const auto& [name, t] : named) {
    if (!t.backed()) continue;
    if (t.type() != dtype::f64) {
      h.update(t.raw(), t.bytes());
      continue;
    }
    std::array<float, 1024> rounded{};
    const auto* p = t.data<double>();
    for (auto left = static_cast<std::size_t>(t.count()); left > 0;) {
      const auto n = std::min(left, rounded.size());
      for (std::size_t i = 0; i < n; ++i) rounded[i] = static_cast<float>(p[i]);
      h.update(rounded.data(), n * sizeof(float));
      p += n;
      left -= n;
    }
  }
  const auto d = h.finish();
  return hex_of(d.data(), d.size());
}

}  // namespace troupe
