// The stage of a layer whose packets of one step compute together (joint_maths in ops/layer.hpp:
// batch_norm with stats = "batch", losses with mean = "batch"). A packet in training:
//   1. A task measures it; the measurement goes to this stage of every worker (`user` message 1).
//   2. When the measurements of all packets of the step have arrived, a task computes the outputs.
//   3. On backward, a task measures the gradient; that is sent likewise (`user` message 2).
//   4. When those of all packets have arrived, a task computes the gradients of the inputs.
// Messages a step: packets x workers of each type. Bytes: one measurement each (batch_norm: two
// numbers a channel).
//
// Invariants:
//   * measurements are used in packet order after all have arrived, so every worker computes the
//     same bits;
//   * a second copy of a measurement has no effect;
//   * all packets of a step must be in flight at once, or the stage would wait without end: check()
//     refuses plans with fewer sub-solvers than a worker has packets. It requires weight rule
//     drain, under which no packet of a later step is in flight.
// In evaluation, packets are independent, as in any other layer.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/stage/stage.hpp"

namespace troupe {

class joint_stage final : public stage {
 public:
  explicit joint_stage(stage_config c);
  // An error if the layer computes jointly and this plan does not allow it.
  static expected<void> check(const job_plan& p, const graph_layer& l);

 protected:
  void begin_forward(slot& s, effects& out) override;
  void begin_backward(slot& s, effects& out) override;
  void on_task(slot& s, std::uint32_t task, effects& out) override;
  void on_user(const envelope& e, effects& out) override;

 private:
  enum task_of : std::uint32_t { measure, make, measure_back, make_back };
  enum message_of : std::uint32_t { forward_part = 1, backward_part = 2 };
  struct arrivals {
    tensors by_packet;
    std::uint32_t missing = 0;
  };

  bool owns(role_id peer, std::uint32_t packet) const;
  void use(slot& s, std::uint32_t kind, const std::shared_ptr<const tensors>& all, effects& out);
  std::shared_ptr<tensor> begin_measure(const slot& s);

  std::map<std::pair<std::uint64_t, std::uint32_t>, arrivals> steps_;  // by step, message
  std::map<std::uint32_t, std::uint64_t> done_;                        // by message: steps below it are complete
  std::vector<std::shared_ptr<tensor>> mine_;                          // by slot: the measurement of its task
  std::vector<std::uint32_t> waits_;                                   // by slot: the message type that it waits for; 0: none
};

}  // namespace troupe
