// The simulator's random numbers: splitmix64 (Steele, Lea, Flood 2014). Portable: the same seed
// gives the same run on every machine, which std:: distributions do not guarantee. (exponential and
// normal use libm, whose last bit may differ between machines.)
#pragma once

#include <cmath>
#include <cstdint>

namespace troupe::sim {

class random {
 public:
  explicit random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ull;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  // Uniform in [0, n); n > 0. The bias of at most n / 2^64 does not matter here.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  bool chance(double p) { return p > 0 && unit() < p; }
  // Mean 1.
  double exponential() { return -std::log(1.0 - unit()); }
  // Mean 0, standard deviation 1 (Box and Muller 1958). The second number of the pair is discarded,
  // so that a draw depends only on the state.
  double normal() {
    const double r = std::sqrt(2 * exponential());
    return r * std::cos(6.283185307179586 * unit());
  }

 private:
  std::uint64_t state_;
};

}  // namespace troupe::sim
