// An event of a job: one of the kinds of event_kinds.hpp, and the step at which it happened. The
// flat form has its fields by name.
// Errors: event_of() fails if a flat event is malformed. Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/messages/event_kinds.hpp"
#include "runtime/messages/ids.hpp"

namespace troupe {

// An event of a job.
struct event_effect {
  std::uint64_t step = 0;  // number of complete steps when it happened, unless its kind says otherwise
  job_event_kind what = {};
  // The commands of which this event is the outcome. Known only within the daemon, or the process,
  // that runs the coordinator role: neither the flat form nor JSON has them.
  std::vector<command_id> answers = {};

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(what);
  }
  template <class T>
  const T* as() const {
    return std::get_if<T>(&what);
  }
  template <class T>
  T* as() {
    return std::get_if<T>(&what);
  }
};

// event_effect::answers with this command; none if the host gave the command.
inline std::vector<command_id> answers_to(command_id id) {
  return id == 0 ? std::vector<command_id>() : std::vector<command_id>{id};
}

const event_name& name_of(const event_effect& e);
// Done, preempted or failed: the last event of its job.
bool ends_job(const event_effect& e);
// Returns true if only the clients that sent the commands get the event, not the followers of the
// job.
bool only_answers(const event_effect& e);
// The text of the event; empty if its kind has none.
std::string message_of(const event_effect& e);

// An event as names and values, as messages between daemons and the journal carry it.
struct flat_event {
  std::string kind;  // event_name::id
  std::uint64_t step = 0;
  named_numbers values = {};
  named_texts texts = {};  // internal ones too
  std::string message = {};
};
flat_event flatten(const event_effect& e);
// The reverse. Values that the kind does not have are ignored; those that are missing have their
// defaults. Otherwise returns what is wrong: an unknown kind, or a count that is not a whole
// number.
expected<event_effect> event_of(const flat_event& flat);

// The named numbers that a member stands for, and the text that it is, in the flat form.
named_numbers numbers_of(const named_numbers& list);
named_numbers numbers_of(const std::pair<std::string, double>& one);
named_numbers numbers_of(const value_histogram& h);
named_numbers numbers_of(const std::vector<std::uint32_t>& by_worker);  // worker0, worker1, ...
named_numbers numbers_of(const std::vector<staleness_entry>& entries);  // "conv1.weight 2" = 17: 17 reads were 2 clocks old
const char* text_of(how_ended how);

}  // namespace troupe
