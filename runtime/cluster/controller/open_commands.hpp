// The commands of users to one job that have no outcome yet. A value.
//
// Invariants: a command has one outcome: the first event that answers it, or the last event of the
// job. A command that waits is told once the job has a coordinator role that may carry it out, in
// the order of entry. One that was told to a coordinator role that was replaced before it answered
// is told to the next one.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/messages/command.hpp"

namespace troupe::control {

class open_commands {
 public:
  // A command to the coordinator role; it waits.
  void add(const command& c) { list_.push_back({c, progress::waits}); }
  // A command that this controller carries out, e.g. `move` or `kill`.
  void add_for_host(const command& c) { list_.push_back({c, progress::of_host}); }
  // The commands that wait. They count as told from now on. Of those without an id, which no event
  // answers, only `stop` stays.
  std::vector<command> take_waiting() {
    std::vector<command> waiting;
    for (auto& o : list_) {
      if (o.at != progress::waits) continue;
      o.at = progress::told;
      waiting.push_back(o.what);
    }
    std::erase_if(list_, [](const entry& o) { return o.what.id == 0 && !o.what.is<stop_command>() && o.at == progress::told; });
    return waiting;
  }
  // The coordinator role was replaced: the next one is told all that have no outcome.
  void tell_again() {
    for (auto& o : list_)
      if (o.at == progress::told) o.at = progress::waits;
  }
  // Removes commands that an event answers. Returns those that had no outcome before.
  std::vector<command_id> close(const std::vector<command_id>& answered) {
    std::vector<command_id> closed;
    for (const auto id : answered)
      if (std::erase_if(list_, [&](const entry& o) { return o.what.id == id; }) > 0) closed.push_back(id);
    return closed;
  }
  // Likewise all, which the last event of the job answers.
  std::vector<command_id> close_all() {
    std::vector<command_id> closed;
    for (const auto& o : list_)
      if (o.what.id != 0) closed.push_back(o.what.id);
    list_.clear();
    return closed;
  }

 private:
  enum class progress : std::uint8_t { waits, told, of_host };
  struct entry {
    command what;
    progress at = progress::waits;
  };
  std::vector<entry> list_;
};

}  // namespace troupe::control
