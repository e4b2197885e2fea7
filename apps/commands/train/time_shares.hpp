// Where the time of an embedded run goes: the share in which its workers compute, and what they
// wait for otherwise. A sampler looks at the published state of the roles about ten times a second.
//
// A worker is its loader, its stages and its worker role. In a sample it
//   computes            if one of its stages, or its worker role, runs a task
//   waits for data      if its loader reads, or waits for examples, and no packet is in its stages
//   waits for weights   if a stage or the worker role waits for them
//   waits for messages  if packets are between its roles (credit, inputs, gradients), or wait
//                       for a thread
//   waits for others    if its loader waits for a grant: evaluation, slower workers, boundaries
//   is idle             otherwise
// in this order.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/shell/node_host.hpp"
#include "runtime/plan/plan.hpp"

namespace troupe {

class time_shares {
 public:
  enum class use : std::uint8_t { computing, data, weights, messages, others, idle };
  static constexpr std::size_t uses = static_cast<std::size_t>(use::idle) + 1;

  explicit time_shares(const job_plan& p);
  // Adds a sample, taken `seconds` after the first one.
  void add(const std::vector<role_published>& roles, double seconds);

  double share(use u) const;  // of all samples of all workers; 0 without samples
  double busy() const;        // tasks that ran at once, on average
  // "computing 87 %, waiting for weights 9 %, for data 4 %; 1.8 tasks at once"; empty without
  // samples.
  std::string text() const;

 private:
  enum class part : std::uint8_t { none, loader, stage, worker };
  struct placed {
    part is = part::none;
    std::uint32_t worker = 0;
  };
  std::vector<placed> seats_;  // by role id
  std::size_t workers_ = 0;
  std::array<std::uint64_t, uses> counts_{};
  double first_busy_ = 0, last_busy_ = 0;  // task seconds of all roles
  double first_at_ = 0, last_at_ = 0;
  bool any_ = false;
};

// Samples in a thread of its own, from its construction until stop().
class time_sampler {
 public:
  // `take` returns the roles' state, or nothing if the run has not begun or is over. It is called
  // on the sampler's thread.
  time_sampler(const job_plan& p, std::function<std::vector<role_published>()> take);
  ~time_sampler();
  time_sampler(const time_sampler&) = delete;
  time_sampler& operator=(const time_sampler&) = delete;

  void stop();               // ends the thread; then the shares no longer change
  std::string text() const;  // after stop()

 private:
  time_shares shares_;
  std::function<std::vector<role_published>()> take_;
  std::mutex lock_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace troupe
