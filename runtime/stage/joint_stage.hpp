// The stage of a layer whose packets of one step compute together (joint_maths in ops/layer.hpp:
// batch_norm with stats = "batch"). States of a packet in training:
//   measure    a task measures it; the measurement goes to the same stage of every worker as `user` message 1
//   with all   those of all packets of the step are here: a task makes the outputs
//   (downstream) backward comes; a task measures the gradient, sent as `user` message 2; with those of all packets its gradients are made
// Messages a step: packets x workers of each type. Bytes: a measurement each (batch_norm: two numbers a channel).
//
// Invariants:
//   * measurements are used in packet order once all are here, so that every worker computes the
//     same bits;
//   * a measurement that comes twice changes nothing;
//   * all packets of a step must be in flight at once, or the stage waits for ever: check() refuses
//     plans with fewer sub-solvers than a worker has packets. It waits for its own step alone: with
//     weight rule drain no packet of a later step is under way.
// Evaluation is like that of any other layer: its packets do not meet.
#pragma once

#include "runtime/stage/stage.hpp"

namespace troupe {

class joint_stage final : public stage {
 public:
  explicit joint_stage(stage_config c);
  // What is wrong with this plan for such a layer; empty: nothing, or it is not such a layer.
  static std::string check(const job_plan& p, const graph_layer& l);

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
  std::map<std::uint32_t, std::uint64_t> done_;                        // by message: steps below are over
  std::vector<std::shared_ptr<tensor>> mine_;                          // by slot: what its task measures
  std::vector<std::uint32_t> waits_;                                   // by slot: for which message of all packets; 0: none
};

}  // namespace troupe
