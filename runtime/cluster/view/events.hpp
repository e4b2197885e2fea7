// The log of recent job events, for the REPL: `watch` and commands that wait for their outcome
// (`mode`, `pause`) read it. A command gets its id here; the event that is its outcome has that id
// in event_effect::answers. The last event of a job is the outcome of all its open commands. Events
// of steps and histograms have lists of their own, so that they do not displace an event that a
// command waits for. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "runtime/role.hpp"

namespace troupe {

struct repl_event {
  std::uint64_t number = 0;  // counts all events of this log, from 1
  std::uint32_t job = 0;
  event_effect what;
};

class repl_events {
 public:
  repl_events();
  void put(std::uint32_t job, const event_effect& e);
  // The id of a command that enters now.
  command_id next_command() { return log_ << 32 | ++commands_; }
  // Returns false if another log gave the id: that of a process that has ended.
  bool gave(command_id id) const { return id >> 32 == log_; }
  std::uint64_t last() const;  // number of the newest; 0: none yet
  // A job's events after `number`, oldest first; of all jobs, the log has at most the last `kept`
  // step events, `kept_histograms` histograms and `kept` other events.
  std::vector<repl_event> after(std::uint64_t number, std::uint32_t job) const;

  static constexpr std::size_t kept = 512, kept_histograms = 4096;

 private:
  mutable std::mutex lock_;
  std::deque<repl_event> steps_, histograms_, others_;
  std::uint64_t count_ = 0;
  const std::uint64_t log_;  // distinguishes this log from those of other processes; 32 bits
  std::atomic<std::uint32_t> commands_{0};
};

}  // namespace troupe
