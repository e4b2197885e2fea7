// The stage of layers with gather = true: the packets of a step that come here are computed as one,
// so that weights are read once a step and their gradient is made once (Krizhevsky 2014, section 4,
// scheme (a): large weights, few activations). In training a packet waits for the others twice,
// before its forward and before its backward; then one task computes all of them, and each goes on
// by itself.
// Messages: those of any stage, but for one gradient a step, of all packets. The bits are those of
//           packet by packet (gathered_maths).
//
// Invariants:
//   * the packets of a step pass here together: all of them wait, are computed, have been, or none;
//     but where the step is over elsewhere each goes on void, and waits for nobody;
//   * all of a step must be in flight at once, or the stage waits for ever: check() refuses plans
//     where they cannot be. It waits for its own step alone: with weight rule drain no packet of a
//     later step is under way;
//   * a task touches the slots of its packets, which have no other task.
// Evaluation is like that of any other layer: its packets do not meet.
#pragma once

#include "runtime/stage/stage.hpp"

namespace troupe {

class gather_stage final : public stage {
 public:
  explicit gather_stage(stage_config c) : stage(std::move(c)) {}
  // What is wrong with this plan for such a layer; empty: nothing, or it is not such a layer.
  static std::string check(const job_plan& p, const graph_layer& l);

 protected:
  void begin_forward(slot& s, effects& out) override;
  void begin_backward(slot& s, effects& out) override;
  void on_task(slot& s, std::uint32_t task, effects& out) override;
  void on_lost(slot& s) override;

 private:
  enum task_of : std::uint32_t { ahead, back };
  using packets = std::vector<std::shared_ptr<slot>>;  // of a step, in their order

  void wait(slot& s, slot::stage_of waiting, slot::stage_of running, task_of task, effects& out);
  packets led_by(const slot& s);

  std::map<std::uint32_t, packets> led_;  // by slot: the packets that its task computes, itself among them
};

}  // namespace troupe
