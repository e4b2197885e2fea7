// Packets of workers by their speed (job_plan::balances, `fraction = "auto"`): learns the time of a
// packet at each worker from the times of its steps, and proposes how many packets each worker
// should have.
//
//   time of a packet  median of step time / packets over the last five steps, from three on; the
//                     first step of a plan does not count
//   best shares       those whose slowest worker is fastest (plan/partition.hpp, balanced)
//   gain g            1 - (step time with the best shares) / (step time with the present ones)
//
// A change costs about a step, so the tuner adds up the gains of consecutive steps and proposes
// when they exceed a quarter of a step. Gains below 3 %, which may be noise, and shares that differ
// by one packet at most, reset the sum. Threads: a value.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/plan/partition.hpp"

namespace troupe {

class share_tuner {
 public:
  explicit share_tuner(const std::vector<packet_range>& ranges);
  // Takes the time of a step at a worker, at least 0. Returns false if the worker has reported this
  // step or a later one.
  bool take(std::uint32_t worker, std::uint64_t step, double seconds);
  // After each take(): the proposed packets of each worker, once; otherwise nothing.
  std::optional<std::vector<std::uint32_t>> proposal();

  static constexpr double least_gain = 0.03, worth_a_change = 0.25;

 private:
  struct worker_times {
    std::uint32_t packets = 0;
    std::uint64_t next = 0;  // the first step that is not reported yet
    std::uint32_t steps = 0;
    std::deque<double> per_packet{};  // seconds, of the last steps
  };

  std::vector<worker_times> workers_;
  std::uint32_t seen_ = 0;  // steps that all workers have reported, at the last proposal()
  std::size_t behind_ = 0;  // workers that have reported no more than these
  double gained_ = 0;
  std::vector<std::uint32_t> proposed_;
};

}  // namespace troupe
