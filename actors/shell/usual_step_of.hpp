// The time of a step, by the record of what the roles on a node did.
#pragma once

#include <optional>

#include "actors/shell/node_host.hpp"
#include "runtime/trace/recorder.hpp"
#include "runtime/trace/usual_step.hpp"

namespace troupe {

// Median in seconds, of the job with roles on this node. nullopt: unknown.
inline std::optional<double> usual_step_of(const node_host& host) {
  const auto roles = host.published();
  if (roles.empty() || !host.activities()) return std::nullopt;
  activity_recorder::position from;
  return usual_step(host.activities()->read(from).all, roles.front().job);
}

}  // namespace troupe
