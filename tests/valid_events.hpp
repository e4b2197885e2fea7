// Checks events of jobs: their JSON in every form fits the schema (runtime/node/events), and their
// flat form can be read back. Fixtures that run jobs call expect_valid() for each event. It does
// nothing in a test program without valid_events.cpp, which needs runtime/node.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/messages/event.hpp"

namespace troupe::valid_events {

inline void (*check_event)(const event_effect&) = nullptr;  // set by valid_events.cpp

// A process checks every event but steps, and of steps the first 200: laws make millions of them.
inline void expect_valid(const event_effect& e) {
  if (check_event) check_event(e);
}

// Returns why `value` does not fit; empty if it does. Understands the keywords that event_schema()
// uses, and fails for others.
std::string schema_violation(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value);

}  // namespace troupe::valid_events
