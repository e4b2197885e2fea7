// State that a stage's layers carry from step to step (plan/carried.hpp), by sequence slot. Packet
// k of step t + 1 begins with the state that packet k of step t has left; in an evaluation with
// eval_sequences, packet p + packets with that of packet p. Training and evaluation have separate
// states. A stage whose layers carry no state has no sequence slots; its packets run in any order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "runtime/stage/stage_layout.hpp"
#include "runtime/stage/stage_slot.hpp"

namespace troupe {

class sequence_slots {
 public:
  // `given`: the initial state is passed to restore(); false: sequence slots begin with zeros.
  // `type`: of the state.
  sequence_slots(std::shared_ptr<const stage_layout> layout, std::uint64_t first_step, bool given, dtype type);

  // Returns true if the packet carries no state, or the forward of its predecessor is done.
  bool let_run(const header& h) const { return !concerns(h) || turn_of(h); }
  // Hands the packet its initial state, and declares the state that it leaves.
  void enter(stage_slot& s) const;
  void leave(stage_slot& s);

  // The state carried by training, one message per piece.
  std::vector<state> collected(std::uint64_t request) const;
  void restore(const restore_state& piece);

 private:
  // The state of one sequence slot, and the packet that continues from it: that of step `next` in
  // training, packet `next` of `round` in an evaluation.
  struct sequence_slot {
    std::uint64_t next = 0, round = 0;
    std::vector<tensors> state;  // by position
  };
  bool concerns(const header& h) const {
    return carries_ && (h.phase == static_cast<std::uint8_t>(phase::train) || layout_->plan().eval_sequences);
  }
  bool turn_of(const header& h) const;
  std::size_t position_of(std::uint32_t layer) const;

  std::shared_ptr<const stage_layout> layout_;
  std::uint64_t first_step_;
  bool given_, carries_ = false;
  dtype type_;
  std::set<std::uint32_t> restored_;                      // pieces passed to restore()
  std::map<std::uint32_t, std::vector<tensors>> coming_;  // by packet, position: incomplete restored state
  std::map<std::uint32_t, sequence_slot> slots_[2];       // by phase, packet (modulo the plan's packets)
};

}  // namespace troupe
