// The packets that no role can need any more, as far as this role knows: those of steps before the
// needed_from of headers, and those of an evaluation round once packets of a later round, or of
// training after the round, have arrived.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "ops/layer.hpp"
#include "runtime/messages/message.hpp"

namespace troupe {

class packet_horizon {
 public:
  explicit packet_horizon(std::uint64_t first_step) : needed_from_(first_step) {}

  std::uint64_t needed_from() const { return needed_from_; }
  bool over(const header& h) const { return trains(h) ? h.step < needed_from_ : h.step < round_ || trained_ > h.version; }

  // Updates the horizon from a message of a packet; `forward`: the message is a forward, which
  // shows how far the loader has come. Returns true if more packets are over than before.
  bool learn(const header& h, bool forward) {
    const auto before = std::tuple(needed_from_, trained_, round_);
    needed_from_ = std::max<std::uint64_t>(needed_from_, h.needed_from);
    if (forward && trains(h)) trained_ = std::max(trained_, h.step + 1);
    if (forward && !trains(h)) round_ = std::max(round_, h.step);
    return before != std::tuple(needed_from_, trained_, round_);
  }

 private:
  static bool trains(const header& h) { return h.phase == static_cast<std::uint8_t>(phase::train); }

  std::uint64_t needed_from_;              // packets of earlier steps are not needed
  std::uint64_t trained_ = 0, round_ = 0;  // from forwards: 1 + the latest training step; the latest evaluation round
};

}  // namespace troupe
