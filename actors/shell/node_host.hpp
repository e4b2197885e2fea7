// Hosts roles as CAF actors on this node: one actor per role, sub-solver actors for tasks that may
// overlap, one monitor. Free of CAF headers, so that callers compile fast.
// Threads: all members may be called from any thread; callbacks run on actor threads and must not
// block.
// Errors: an exception in a role or task becomes the event "error" naming the role; it never
// crosses a mailbox.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/shell/job_host.hpp"
#include "runtime/role.hpp"

namespace caf {
class actor_system;
class actor_system_config;
}  // namespace caf

namespace troupe {

class device;
class job_log;

// A task of a role that has begun and is not over.
struct running_task {
  std::string kind;          // "forward", ...; empty: none runs
  std::uint64_t serial = 0;  // counts the role's tasks: the same number is the same task
  bool of_packet = false;    // the next two say which
  std::uint64_t step = 0;
  std::uint32_t packet = 0;
  double seconds = 0;  // so far
};

struct role_published {
  std::uint32_t job = 0;
  role_id id = no_role;
  std::string name;
  role_status status;
  std::uint64_t messages = 0;  // handled so far
  double busy_seconds = 0;     // spent in tasks
  double age_seconds = 0;      // since the last publication
  running_task task = {};      // of several the one that began first: known also while the role itself computes
};

struct host_callbacks {
  // What the coordinator (or any role) of a job hosted here tells people and files.
  std::function<void(std::uint32_t job, const event_effect&)> on_event;
  std::function<void(std::uint32_t job, const store_effect&)> on_store;
  // An envelope for a role on another node (index in the plan's nodes). Must not block.
  std::function<void(std::uint32_t node, envelope)> on_remote;
};

struct host_config {
  unsigned threads = 0;  // scheduler threads; 0: one per core
  host_callbacks callbacks;
  // By number in the list of the node that jobs see (role_plan::device); empty: one, the CPU.
  std::vector<std::shared_ptr<device>> devices;
  // Called before the actor system exists: the daemon's control plane loads CAF modules and adds
  // its message types here. Without it the system knows no middleman and opens no port.
  std::function<void(caf::actor_system_config&)> configure;
  // For what each job's roles are handed, so that a failed one can be run again (job_log.hpp);
  // beyond it the first messages go. 0: no log.
  std::size_t message_log = std::size_t{4} << 20;
};

// A role value with its place, for callers that make roles themselves (tests, actor-based layers,
// restarts).
struct seat {
  role_id id = no_role;
  std::string name;
  std::uint32_t slots = 1;  // more than one: tasks go to as many sub-solver actors; else they run in the role's own actor
  std::uint32_t incarnation = 0;
  std::uint32_t device = 0;  // that its jobs run on: number in host_config::devices
  // The role's own work gives way: it waits while sub-solvers have work that no thread has begun.
  // For roles whose long sums and updates can fill the threads that a step's last packets leave
  // idle; only in jobs where those packets wait for this role in the end.
  bool gives_way = false;
  std::unique_ptr<role> value;
};

// Messages that were dropped, by reason.
struct host_counts {
  std::uint64_t unknown_job = 0;      // never spawned here, or ended
  std::uint64_t unknown_role = 0;     // no such role, or it lives elsewhere and nobody carries messages there
  std::uint64_t old_incarnation = 0;  // its sender has been restarted since
  std::uint64_t to_failed = 0;        // the role had failed
};

// One task on a sub-solver (or inline), as it ran. Times since the job's start.
struct task_span {
  std::uint32_t job = 0;
  role_id role = no_role;
  std::string_view name;
  const char* kind = "";
  std::uint32_t slot = 0;
  time_point begin{}, end{};
};
using trace_hook = std::function<void(const task_span&)>;

class node_host final : public job_host {
 public:
  explicit node_host(host_config c);
  ~node_host() override;  // stops everything and joins
  node_host(const node_host&) = delete;
  node_host& operator=(const node_host&) = delete;

  // Spawns the roles of `j` that live on node `me`. They stay silent until `start` reaches the
  // coordinator. `plan_generation`: which plan of the job, from 0 on; the incarnation of all its
  // roles, so that nothing of an earlier plan reaches them.
  void spawn(std::uint32_t job, const std::shared_ptr<const prepared_job>& j, std::uint32_t me,
             std::uint32_t plan_generation = 0) override;
  // The same for roles the caller made: `node_of` says by role_id where every role of the job
  // lives. Throws std::invalid_argument when the job is here already or a seat has no place, or one
  // on a device that there is not. Messages of roles, here or elsewhere, of an incarnation before
  // `least` are dropped. Roles see incarnations counted from there: whoever has not been restarted
  // in this plan has 0.
  void spawn(std::uint32_t job, std::vector<seat> seats, std::vector<std::uint32_t> node_of, std::uint32_t me,
             std::uint32_t least = 0);
  // Delivers to a role hosted here; unknown roles and jobs are counted and dropped.
  void deliver(envelope e);
  // A person's word to the job's coordinator (which must live here).
  void command(std::uint32_t job, troupe::command c);
  // From now on messages of `source` older than `incarnation` are dropped. A newer incarnation seen
  // in a message does the same.
  void fence(std::uint32_t job, role_id source, std::uint32_t incarnation);
  // Ends the job's roles; returns when they are gone (bounded by the task that runs). Not from a
  // callback: it would wait for itself.
  void end(std::uint32_t job) override;
  // What roles published last, never older than ~100 ms while they work. Never waits for a role.
  std::vector<role_published> published() const;
  // What the roles of a job here have been handed: goes on while it runs, and is whole when `end`
  // has returned. Null: no such job, or no log.
  std::shared_ptr<const job_log> log_of(std::uint32_t job) const;
  host_counts counts() const;
  // Called on actor threads for every task from now on, until replaced by {}.
  void trace(trace_hook hook);
  // For the control plane, which lives in the same system (include actors/shell/node_host_caf.hpp
  // to use it).
  caf::actor_system& system();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
