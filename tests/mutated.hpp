// Mutated inputs: a valid input with a few bytes changed, removed, inserted, or copied from another
// valid input.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/random.hpp"

namespace troupe::test {

template <class Bytes>
Bytes mutated(const std::vector<Bytes>& sound, counter_rng& r, std::size_t most = 1 << 16) {
  using byte = typename Bytes::value_type;
  static constexpr std::uint8_t edges[] = {0, 1, 2, 0x7f, 0x80, 0xff, '"', '[', '{', '\n', '=', '-'};
  Bytes b = sound[r.draw_below(sound.size())];
  const auto at = [&](std::size_t n) {
    return static_cast<std::ptrdiff_t>(r.draw_below(r.draw_below(2) ? n : std::min<std::size_t>(n, 100)));
  };
  for (auto n = r.draw_below(4) + 1; n > 0; --n) {
    const auto bits = r.next();
    const auto value = static_cast<byte>(bits & 64 ? edges[(bits >> 8) % sizeof edges] : static_cast<std::uint8_t>(bits >> 8));
    switch (bits & 15) {
      case 0: b.resize(r.draw_below(b.size() + 1)); break;
      case 1: b.resize(std::min(most, b.size() + r.draw_below(70))); break;
      case 2: b.insert(b.begin() + at(b.size() + 1), value); break;
      case 3: {
        const auto& other = sound[r.draw_below(sound.size())];
        if (other.empty()) break;
        const auto from = at(other.size());
        const auto length = std::min<std::size_t>(other.size() - static_cast<std::size_t>(from), 1 + r.draw_below(64));
        if (b.size() + length <= most)
          b.insert(b.begin() + at(b.size() + 1), other.begin() + from, other.begin() + from + static_cast<std::ptrdiff_t>(length));
        break;
      }
      case 4:
        if (!b.empty()) b.erase(b.begin() + at(b.size()));
        break;
      default:
        if (!b.empty()) b[static_cast<std::size_t>(at(b.size()))] = value;
    }
  }
  return b;
}

}  // namespace troupe::test
