// JSON of a job's events, made from the fields of their kinds (runtime/messages/event_kinds.hpp).
// All programs write events through this file; docs/events.schema.json describes the objects, and
// event_schema() makes it.
// Threads: functions without state.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "runtime/messages/event.hpp"

namespace troupe {

// The places where events are written differ in a few fields.
enum class event_form : std::uint8_t {
  command,  // `troupe train --json`: `done` and `error` have no `step`; `error` always has `where`
  session,  // REPL: as `command`, and `done` has `how`: "finished" or "stopped"
  file,     // run folders and post-mortems: `step` always; staleness, mode and `how` as flat values and `message`
};

// `time`: seconds since 1970, for files; none: left out.
nlohmann::ordered_json event_object(const event_effect& e, event_form form, std::optional<double> time = {});
// As one line without a newline. Bytes that are not UTF-8 are replaced.
std::string event_line(const event_effect& e, event_form form, std::optional<double> time = {});

// The JSON schema (draft 2020-12) of all these objects.
nlohmann::ordered_json event_schema();

}  // namespace troupe
