// Orders: the actions that cluster_controller and member request of their host. Blocking operations
// are among them (operations.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/cluster/controller/operations.hpp"
#include "runtime/cluster/job_event.hpp"
#include "runtime/cluster/messages.hpp"
#include "runtime/cluster/view/injection.hpp"

namespace troupe::control {

class cluster_controller;
class member;

using instant = std::chrono::steady_clock::time_point;

struct to_peer {
  std::string peer;
  message what;
};
struct log_line {
  std::string text;
};

// --- of the cluster controller

struct begin_job {
  std::uint32_t job = 0;
};
struct tell_job {
  std::uint32_t job = 0;
  command what;
};
// Must be on disk before the orders after it are carried out.
struct journal_line {
  std::string line;
};
struct followed_event {  // an event that was sent to the job's followers
  job_event what;
};
// Carried out in the order of the list.
using order = controller_operations::with<to_peer, begin_job, tell_job, followed_event, log_line, journal_line>;
using orders = std::vector<order>;

// --- of members

struct connect_data {
  std::string peer, address;
};
struct suffer {  // the fault begins now
  injection what;
};
using member_order = member_operations::with<to_peer, connect_data, suffer, log_line>;
using member_orders = std::vector<member_order>;

// --- results of operations

// Those who take the results, for one delivery.
struct takers {
  cluster_controller* controller;  // null if this daemon is not the coordinator's; then it has requested nothing
  member* node;
  instant now;
  orders* controller_out;
  member_orders* node_out;
  // Called before `node` learns that a job's roles have ended. Returns the bytes that they sent to
  // other nodes.
  std::function<std::uint64_t()> roles_ended;
  std::function<void(const stored&)> saved;  // called before `controller` learns it
  std::function<void(const std::string& line)> log;
};

}  // namespace troupe::control
