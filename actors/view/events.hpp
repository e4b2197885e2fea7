// What jobs have said lately, for the REPL: commands that wait for an effect (`mode`, `staleness`)
// and `watch` read it. Steps are kept apart from the rest, so that a fast job does not push out the
// word somebody waits for.
// Threads: any.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/role.hpp"

namespace troupe {

// How the text of an `alert` begins that stands for a checkpoint that is not where it belongs.
inline constexpr std::string_view checkpoint_not_saved = "the checkpoint was not saved: ";
// The kind of an event that only this log knows: what a person told the job did not get to it, and
// why.
inline constexpr const char* not_reported = "not told";

struct repl_event {
  std::uint64_t number = 0;  // counts all events of this log, from 1
  std::uint32_t job = 0;
  event_effect what;
  std::vector<std::pair<std::string, std::string>> texts;  // values that are words: "file", "alert"
};

class repl_events {
 public:
  void put(std::uint32_t job, const event_effect& e, std::vector<std::pair<std::string, std::string>> texts = {});
  std::uint64_t last() const;  // number of the newest; 0: none yet
  // A job's events behind `number`, oldest first; at most the last `kept` steps and as many others.
  std::vector<repl_event> after(std::uint64_t number, std::uint32_t job) const;

  static constexpr std::size_t kept = 512;

 private:
  mutable std::mutex lock_;
  std::deque<repl_event> steps_, others_;
  std::uint64_t count_ = 0;
};

}  // namespace troupe
