// The running hash over a run's deliveries: four lanes of 64 bits, each word multiplied and folded
// into its lane, so that the lanes go through the processor side by side. Not cryptographic: it
// tells two runs apart, nobody attacks it.
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
    // One lane leans on its neighbour, so that a swap of words between lanes is seen.
    state_[0] ^= state_[3] << 1;
  }
  const std::array<std::uint64_t, 4>& words() const { return state_; }
  std::uint64_t value() const {
    std::uint64_t h = 0xcbf29ce484222325ull;
    for (auto w : state_) h = fold(h ^ w, 0x9fb21c651e98df25ull);
    return h;
  }

 private:
  // Both steps are one to one: the product sends every bit upwards, the shift brings the high ones
  // down again for the next word.
  static std::uint64_t fold(std::uint64_t x, std::uint64_t by) {
    x = (x + by) * 0xa0761d6478bd642full;
    return x ^ (x >> 32);
  }

  std::array<std::uint64_t, 4> state_ = {1, 2, 3, 4};
};

}  // namespace troupe::sim
