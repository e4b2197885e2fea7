// State that a stage's layers carry from step to step (carried.hpp), by the packet's place in the
// order: packet k of step t + 1 begins with what packet k of step t has left; in an evaluation with
// lanes packet p + packets with what packet p has. Training and tests have states of their own. A
// stage whose layers carry nothing has no lanes, and all its packets run as they come.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "runtime/stage/stage_maths.hpp"

namespace troupe {

class sequence_slots {
 public:
  // `given`: what lanes begin with comes by restore(); else they begin with zeros.
  sequence_slots(std::shared_ptr<const stage_maths> maths, std::shared_ptr<const model_graph> graph,
                 std::shared_ptr<const job_plan> plan, std::uint64_t first_step, bool given);

  // Is it this packet's turn?
  bool let_run(const header& h) const { return !concerns(h) || turn_of(h); }
  void enter(stage_slot& s) const;
  void leave(stage_slot& s);

  // What training has carried so far, piece by piece, each with the step that it is for; and back.
  std::vector<std::pair<std::uint64_t, state>> collected(std::uint64_t request) const;
  void restore(const restore_state& piece);

 private:
  // What the packets of one place have carried: up to step `next`, or up to packet `next` of
  // evaluation `round`.
  struct sequence_slot {
    std::uint64_t next = 0, round = 0;
    std::vector<tensors> state;  // by position
  };
  bool concerns(const header& h) const {
    return carries_ && (h.phase == static_cast<std::uint8_t>(phase::train) || plan_->eval_sequences);
  }
  bool turn_of(const header& h) const;
  std::size_t position_of(std::uint32_t layer) const;

  std::shared_ptr<const stage_maths> maths_;
  std::shared_ptr<const model_graph> graph_;
  std::shared_ptr<const job_plan> plan_;
  std::uint64_t first_step_;
  bool given_, carries_ = false;
  std::set<std::uint32_t> restored_;                      // pieces that have come back
  std::map<std::uint32_t, std::vector<tensors>> coming_;  // of packets whose pieces are not all here, by position
  std::map<std::uint32_t, sequence_slot> slots_[2];       // by phase, packet (modulo the plan's packets)
};

}  // namespace troupe
