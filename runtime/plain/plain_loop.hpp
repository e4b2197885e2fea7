// Runs a prepared job's training as a plain loop on one thread: no roles, no messages, no actors.
// It is the baseline for the overhead of the actors (`troupe time`) and an independent check of the
// numbers: after k steps its weights are bit-identical to those of the roles, for any number of
// workers, shards and sub-solvers, because it uses the same layers, packets and brackets of sums
// (docs/determinism.md).
//
// Supports only jobs whose mode amounts to one mean gradient per step ("bsp").
// Errors: unsupported jobs are bugs and assert; exceptions of a layer pass through.
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
  std::vector<row> layers;  // in graph order; of layers that are computed as one, all time counts for the first
  double load = 0;          // reading examples
  double sum = 0;           // adding gradients of packets
  double update = 0;
};

class plain_loop {
 public:
  // Returns why a job cannot run as a plain loop, which computes one packet after another: layers
  // whose packets are computed together (joint_maths in ops/layer.hpp), with several packets. Empty
  // if it can; the constructor requires that.
  static diagnostics why_not(const prepared_job& j);
  // Starts at j->first_step, from the job's given weights or the fillers. `delays`: by layer, the
  // number of steps that the weights of a step's forward and backward lag behind (rule "stash",
  // plan/warm_up.hpp); empty: 0. Gradients are always applied to the newest weights.
  plain_loop(std::shared_ptr<const prepared_job> j, std::shared_ptr<device> d, std::vector<std::uint32_t> delays = {});
  ~plain_loop();
  plain_loop(const plain_loop&) = delete;
  plain_loop& operator=(const plain_loop&) = delete;

  // Runs one step. Returns the loss as the coordinator reports it. `times`: receives the time of
  // each part.
  double step(plain_times* times = nullptr);
  // The name of the maths computed for a layer: its name, "conv1+relu1" if others are computed with
  // it, empty if it is computed with an earlier layer.
  std::string name_of(std::uint32_t layer) const;
  std::uint64_t steps() const;  // finished steps since the start of the job
  // By name, in layer order. Handles to the loop's own memory: the next step changes them.
  std::vector<std::pair<std::string, tensor>> weights() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
