// Totals of the events of jobs, for counters that never fall: a view shows the present state, and a
// job may go back to an earlier step. Of at most `max_jobs_exported` jobs, the newest ones.
// Threads: any; a call holds a lock for some microseconds. Errors: none.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/messages/best_evaluation.hpp"
#include "runtime/role.hpp"

namespace troupe {

inline constexpr std::size_t max_jobs_exported = 8;

// Upper bounds of the times between steps, in seconds.
inline constexpr std::array<double, 12> step_bounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10};

// size: mirrors the metrics of a job, one field each
struct job_totals {
  using wall_time = std::chrono::system_clock::time_point;

  std::uint64_t step = 0;   // of the last event
  std::uint64_t steps = 0;  // completed, repeated ones included
  std::uint64_t skipped = 0;
  double loss = 0, examples_per_s = 0;
  std::optional<double> lr, eval_loss;
  best_so_far best;  // of the evaluations with an accuracy
  std::array<std::uint64_t, step_bounds.size() + 1> step_times{};
  double step_seconds = 0;                      // sum of step_times
  std::map<std::string, std::uint64_t> events;  // by kind
  std::uint64_t recoveries = 0, plan_changes = 0;
  double recovery_seconds = 0;
  std::uint64_t saved = 0, unsaved = 0;  // checkpoints
  std::uint64_t saved_step = 0;
  double saving_seconds = -1;  // of the newest checkpoint; -1: unknown
  wall_time begun{}, last_step_at{}, saved_at{};

  std::uint64_t skipped_before = 0;                          // in earlier plans; the event has the number of this one
  std::deque<std::chrono::steady_clock::time_point> saving;  // beginnings of the checkpoints that are being written
};

class event_totals {
 public:
  void event(std::uint32_t job, const event_effect& e);
  // A checkpoint is about to be written, or was.
  void saving(std::uint32_t job);
  void saved(std::uint32_t job, bool good);

  std::map<std::uint32_t, job_totals> all() const;

 private:
  job_totals& of(std::uint32_t job);

  mutable std::mutex lock_;
  std::map<std::uint32_t, job_totals> jobs_;
};

}  // namespace troupe
