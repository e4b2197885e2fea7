// Which packets nobody can need any more, as far as a role has heard: those of steps before the one
// that headers name as needed, and those of a round of evaluation when packets of another one have
// come, or of training behind it.
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

  // From a message of a packet; `forward`: it brings the packet, and so shows how far whoever makes
  // packets is. True: more is over.
  bool learn(const header& h, bool forward) {
    const auto before = std::tuple(needed_from_, trained_, round_);
    needed_from_ = std::max<std::uint64_t>(needed_from_, h.needed_from);
    if (forward && trains(h)) trained_ = std::max(trained_, h.step + 1);
    if (forward && !trains(h)) round_ = std::max(round_, h.step);
    return before != std::tuple(needed_from_, trained_, round_);
  }

 private:
  static bool trains(const header& h) { return h.phase == static_cast<std::uint8_t>(phase::train); }

  std::uint64_t needed_from_;              // nobody needs packets of earlier steps
  std::uint64_t trained_ = 0, round_ = 0;  // steps and rounds of evaluation that packets have come of
};

}  // namespace troupe
