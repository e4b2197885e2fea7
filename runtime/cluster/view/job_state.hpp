// The state of a job, as `jobs`, `status`, the page, /metrics and JSON show it. The cluster
// controller decides it in one place (controlled_job::state(), controlled_job::doing()).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe {

enum class job_state : std::uint8_t {
  checking,
  receiving,  // the file that it starts from
  queued,
  gathering,  // waits for the nodes of its plan
  preparing,
  running,
  paused,
  stopping,  // at the next step boundary
  ending,
  done,
  stopped,
  preempted,
  failed,
};
// What a job with roles does besides training, or instead of it.
enum class job_activity : std::uint8_t {
  none,
  pausing,     // until the next step boundary
  moving,      // to another plan: `move`, `add-node`, `balance`
  draining,    // off a node: `drain`, or a node that shuts down
  recovering,  // from the failure of a node or role
  rejoining,   // waits for nodes that have lost the coordinator's daemon
};

inline constexpr std::array<const char*, 13> job_state_names = {"checking", "receiving", "queued",   "gathering", "preparing",
                                                                "running",  "paused",    "stopping", "ending",    "done",
                                                                "stopped",  "preempted", "failed"};
inline constexpr std::array<const char*, 6> job_activity_names = {"", "pausing", "moving", "draining", "recovering", "rejoining"};

constexpr const char* text_of(job_state s) { return job_state_names[static_cast<std::size_t>(s)]; }
constexpr const char* text_of(job_activity a) { return job_activity_names[static_cast<std::size_t>(a)]; }

constexpr std::optional<job_state> job_state_named(std::string_view word) {
  for (std::size_t i = 0; i < job_state_names.size(); ++i)
    if (word == job_state_names[i]) return static_cast<job_state>(i);
  return std::nullopt;
}

constexpr bool is_over(job_state s) { return s >= job_state::done; }
// Its roles exist and take commands.
constexpr bool has_roles(job_state s) { return s == job_state::running || s == job_state::paused || s == job_state::stopping; }

}  // namespace troupe
