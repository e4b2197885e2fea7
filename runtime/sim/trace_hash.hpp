// The running hash over a run's deliveries: four 64-bit lanes. Each word is multiplied and folded
// into its lane; the lanes are independent, so the processor computes them in parallel. Not
// cryptographic: it only distinguishes two runs.
#pragma once

#include <array>
#include <cstdint>

namespace troupe::sim {

class trace_hash {
 public:
  void add(const std::array<std::uint64_t, 8>& words) {
    for (std::size_t i = 0; i < 4; ++i) {
      state_[i] = fold(state_[i] ^ words[i], 0x9fb21c651e98df25ull + 2 * i);
      state_[i] = fold(state_[i] ^ words[i + 4], 0xd6e8feb86659fd93ull + 2 * i);
    }
    // Lane 0 depends on lane 3, so that swapping words between lanes changes the hash.
    state_[0] ^= state_[3] << 1;
  }
  const std::array<std::uint64_t, 4>& words() const { return state_; }
  std::uint64_t value() const {
    std::uint64_t h = 0xcbf29ce484222325ull;
    for (auto w : state_) h = fold(h ^ w, 0x9fb21c651e98df25ull);
    return h;
  }

 private:
  // Both steps are bijective. The product moves bits up, the shift moves the high bits down for the
  // next word.
  static std::uint64_t fold(std::uint64_t x, std::uint64_t by) {
    x = (x + by) * 0xa0761d6478bd642full;
    return x ^ (x >> 32);
  }

  std::array<std::uint64_t, 4> state_ = {1, 2, 3, 4};
};

}  // namespace troupe::sim
