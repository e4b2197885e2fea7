// The stage of layers with gather = true: the packets of a step that pass this stage are computed
// as one, so weights are read once a step and their gradient is computed once (Krizhevsky 2014,
// section 4, scheme (a): large weights, few activations). In training a packet waits for the others
// twice, before its forward and before its backward; one task then computes all of them. Between
// the two waits each packet proceeds separately.
// Messages: those of any stage, with one gradient a step, of all packets. The bits are those of
//           computing packet by packet (gathered_maths).
//
// Invariants:
//   * the packets of a step are computed together; if the step has been finished without this
//     stage, each passes as a void packet without waiting;
//   * all packets of a step must be in flight at once, or the stage would wait without end: check()
//     refuses plans where they cannot be. Jobs with such layers use weight rule drain, under which
//     no packet of a later step is in flight;
//   * a task has the data of all its packets, which have no other task.
// In evaluation, packets are independent, as in any other layer.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/stage/stage.hpp"

namespace troupe {

class gather_stage final : public stage {
 public:
  explicit gather_stage(stage_config c) : stage(std::move(c)) {}
  // An error if the layer has gather = true and this plan does not allow it.
  static expected<void> check(const job_plan& p, const graph_layer& l);

 protected:
  void begin_forward(slot& s, effects& out) override;
  void begin_backward(slot& s, effects& out) override;
  void on_task(slot& s, std::uint32_t task, effects& out) override;

 private:
  enum task_of : std::uint32_t { ahead, back };
  using slots = std::vector<slot*>;  // of a step, by packet number

  void wait(slot& s, slot::stage_of waiting, slot::stage_of running, task_of task, effects& out);
  slots led_by(const slot& s);

  std::map<std::uint32_t, slots> led_;  // by slot of the task: the packets that it computes, including its own
};

}  // namespace troupe
