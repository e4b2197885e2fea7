// Plans of a job to run again (`troupe replay`, `troupe sim --replay`), from the folders that their
// nodes have left (runtime/node/post_mortem.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/cli/output.hpp"
#include "runtime/node/post_mortem.hpp"
#include "runtime/replay/player.hpp"

namespace troupe {

// One plan of a job, as its nodes have recorded it.
struct recorded_plan {
  std::vector<std::string> folders;
  std::vector<post_mortem> nodes;     // one for each folder
  std::shared_ptr<prepared_job> job;  // set by prepare_to_replay()
  const post_mortem& first() const { return nodes.front(); }
};

// Reads folders, and groups them by plan. Plans are in the order in which they began; one that a
// later incarnation of a daemon began again follows. Plans without a message are left out.
// `load_plugins`: as of job_text (prepare_text.hpp).
expected<std::vector<recorded_plan>, post_mortem_error> read_recorded(const std::vector<std::string>& folders, bool load_plugins);

// Prints why a folder cannot be read; returns the exit code.
int unreadable(const output& out, const post_mortem_error& e);

// Makes the job, with the state that the plan began with. Prints the error; returns the exit code,
// 0 if there is none.
int prepare_to_replay(recorded_plan& p, const device& dev, const output& out);

// What the logs cannot repeat: missing nodes, logs that were cut, hogwild.
std::vector<std::string> limits_of_replay(const recorded_plan& p);

// Makes the roles, which play in the order of their logs. `p` must outlive the player.
std::unique_ptr<replay::player> make_player(const recorded_plan& p, device& dev);

// "at step 12: message" for people, or the event as an object with --json.
void tell_replayed(const output& out, const prepared_job& j, role_id who, const event_effect& e);

}  // namespace troupe
