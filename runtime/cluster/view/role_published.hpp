// What a node publishes about the roles that it hosts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/role.hpp"

namespace troupe {

// A task of a role that is running.
struct running_task {
  std::string kind;          // "forward", ...; empty: none runs
  std::uint64_t serial = 0;  // number of the task among the role's tasks, from 1; 0: none runs
  bool of_packet = false;    // `step` and `packet` are set
  std::uint64_t step = 0;
  std::uint32_t packet = 0;
  double seconds = 0;  // so far
  double usual = 0;    // median time of the role's last tasks of this kind; 0: it has ended too few
};

struct role_published {
  std::uint32_t job = 0;
  role_id id = no_role;
  std::string name;
  role_status status;
  std::uint64_t messages = 0;  // handled so far
  double busy_seconds = 0;     // spent in tasks
  double age_seconds = 0;      // since the last publication
  running_task task = {};      // the oldest running task; up to date even while the role itself computes
  // Only for roles of this node (not sent to the coordinator's daemon):
  std::string_view kind = {};                  // of the role, e.g. "stage"; empty: unknown
  std::uint64_t tasks = 0;                     // begun so far
  std::array<double, wait_kinds> waited = {};  // seconds in which the role has waited, by wait_kind
};

// Messages that a host dropped, by reason.
struct host_counts {
  std::uint64_t unknown_job = 0;      // never spawned on this node, or ended
  std::uint64_t unknown_role = 0;     // no such role, or it is on another node and there is no on_remote
  std::uint64_t old_incarnation = 0;  // of an earlier plan of the job
  std::uint64_t to_failed = 0;        // the role had failed
};

}  // namespace troupe
