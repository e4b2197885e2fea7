// How the events of a job change what the REPL shows of it: step, loss, rate, learning rate, mode,
// settings. Used by all hosts of jobs: daemons, the embedded REPL and the socket of a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "runtime/cluster/view/view.hpp"

namespace troupe {

// Adds the event to `j`. Changes the state only for "paused" and "resumed". The step falls only
// with "recovered": the events of other roles may arrive late.
void note_event(repl_job& j, const event_effect& e);

// The newest checkpoint of a job. For hosts in one process; a controller has its list of files.
class newest_checkpoint {
 public:
  // Takes an event of the job: of a checkpoint that has been written.
  void note(const event_effect& e);
  // Sets the step and the age in `j`, if there is a checkpoint.
  void show(repl_job& j) const;

 private:
  std::optional<std::uint64_t> step_;
  std::chrono::steady_clock::time_point at_;
};

// The mode in use, with its options; empty: unknown.
std::string mode_of(const repl_job& j);
// The base value of "train.dynamics.lr" or "train.dynamics.decay" in use; nullopt: unknown.
std::optional<double> setting_of(const repl_job& j, const std::string& key);
// Epochs trained; nullopt: unknown.
std::optional<double> epoch_of(const repl_job& j);
// Seconds until the last step at the present rate; nullopt: unknown, or the job does not train.
std::optional<double> seconds_left(const repl_job& j);

// Bytes that this process has in memory (resident set); 0: unknown.
std::uint64_t resident_memory();

}  // namespace troupe
