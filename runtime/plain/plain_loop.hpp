// A prepared job's training, called in a plain loop on one thread: no roles, no messages, no
// actors. It is the measure of what the actors cost (`troupe time`) and a second witness of the
// numbers: after k steps its weights have the same bits as those of the roles, for any number of
// workers, shards and sub-solvers, because it uses the same layers, the same packets and the same
// brackets when it adds (docs/determinism.md).
//
// Only jobs whose mode amounts to one mean gradient a step ("bsp") are such a loop.
// Errors: wrong jobs are bugs and assert; exceptions of a layer pass through.
// Threads: one at a time; two loops are independent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/job/job.hpp"

namespace troupe {

// Seconds of one step, over all its packets.
struct plain_times {
  struct row {
    double forward = 0, backward = 0;
  };
  std::vector<row> layers;  // as in the graph; of layers that are computed as one, all with the first
  double load = 0;          // reading examples
  double sum = 0;           // adding packets' gradients
  double update = 0;
};

class plain_loop {
 public:
  // Why a job has no such loop, which takes one packet after the other: layers whose packets
  // compute together (joint_maths in ops/layer.hpp), with several packets. Empty: it has one; the
  // constructor wants that.
  static diagnostics why_not(const prepared_job& j);
  // Begins at j->first_step, from what the job has been given or the fillers. `delays`: by layer,
  // how many steps the weights are behind that a step's forward and backward use (the rule "stash",
  // plan/warm_up.hpp); none: 0. Gradients are always applied to the newest weights.
  plain_loop(std::shared_ptr<const prepared_job> j, std::shared_ptr<device> d, std::vector<std::uint32_t> delays = {});
  ~plain_loop();
  plain_loop(const plain_loop&) = delete;
  plain_loop& operator=(const plain_loop&) = delete;

  // One step; the loss as the coordinator reports it. With `times`, writes down where the time
  // went.
  double step(plain_times* times = nullptr);
  // What is computed at a layer's place: its name, "conv1+relu1" where others are computed with it,
  // empty with these others.
  std::string name_of(std::uint32_t layer) const;
  std::uint64_t steps() const;  // done so far, from the job's beginning
  // By name, in layer order. Handles to the loop's own memory: they change with the next step.
  std::vector<std::pair<std::string, tensor>> weights() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
