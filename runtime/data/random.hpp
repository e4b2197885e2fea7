// Random numbers of samplers and synthetic data: SplitMix64 (Steele, Lea, Flood 2014) as a
// counter-based hash. Every number is a pure function of (key, counter) in 64-bit integer
// arithmetic, so that all nodes and compilers draw the same. <random> is not used, because the
// standard leaves std::shuffle and the distributions to the library.
#pragma once

#include <cassert>
#include <cstdint>

namespace troupe {

constexpr std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The counter-th output of the SplitMix64 stream whose state begins at `key`.
constexpr std::uint64_t hash_at(std::uint64_t key, std::uint64_t counter) {
  return mix64(key + (counter + 1) * 0x9e3779b97f4a7c15u);
}

// A key for a sub-stream. Mixed twice, so that adjacent seeds and tags do not give shifted copies
// of one stream.
constexpr std::uint64_t sub_key(std::uint64_t key, std::uint64_t tag) { return mix64(hash_at(key, tag) ^ 0x5851f42d4c957f2du); }

// Maps 64 random bits to [0, n) without division. The bias is below n / 2^64. Used for labels;
// shuffles use draw_below.
constexpr std::uint64_t scale_below(std::uint64_t bits, std::uint64_t n) {
  __extension__ using wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<wide>(bits) * n) >> 64);
}

// A stream: counters 0, 1, 2, ... of one key.
class counter_rng {
 public:
  explicit constexpr counter_rng(std::uint64_t key) : key_(key) {}
  constexpr std::uint64_t next() { return hash_at(key_, counter_++); }

  // Uniform in [0, n), without bias (Lemire 2019: multiply, and reject the short first part).
  constexpr std::uint64_t draw_below(std::uint64_t n) {
    assert(n > 0);
    __extension__ using wide = unsigned __int128;
    wide product = static_cast<wide>(next()) * n;
    if (static_cast<std::uint64_t>(product) < n) {
      const std::uint64_t reject = (0 - n) % n;
      while (static_cast<std::uint64_t>(product) < reject) product = static_cast<wide>(next()) * n;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

}  // namespace troupe
