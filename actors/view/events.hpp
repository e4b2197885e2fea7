// The log of recent job events, for the REPL: `watch` and commands that wait for an effect (`mode`,
// `staleness`) read it. Events of steps and histograms have lists of their own, so that they do not
// displace an event that a command waits for.
// Threads: any.
#pragma once

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
  void put(std::uint32_t job, const event_effect& e);
  std::uint64_t last() const;  // number of the newest; 0: none yet
  // A job's events after `number`, oldest first; of all jobs, the log has at most the last `kept`
  // step events, `kept_histograms` histograms and `kept` other events.
  std::vector<repl_event> after(std::uint64_t number, std::uint32_t job) const;

  static constexpr std::size_t kept = 512, kept_histograms = 4096;

 private:
  mutable std::mutex lock_;
  std::deque<repl_event> steps_, histograms_, others_;
  std::uint64_t count_ = 0;
};

}  // namespace troupe
