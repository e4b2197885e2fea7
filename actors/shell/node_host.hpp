// Hosts roles as CAF actors on this node: one actor per role, sub-solver actors for tasks that may
// overlap, one monitor. This header does not include CAF, so that callers compile fast.
// Threads: all members may be called from any thread; callbacks run on actor threads and must not
// block.
// Errors: an exception in a role or task becomes the event "error" naming the role; it never
// crosses a mailbox.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/maths_rules.hpp"
#include "runtime/cluster/job_host.hpp"
#include "runtime/cluster/view/role_published.hpp"
#include "runtime/role.hpp"

namespace caf {
class actor_system;
}  // namespace caf

namespace troupe {

class activity_recorder;
class device;
class job_log;

struct host_callbacks {
  // Events and data to store of any role of a job hosted here.
  std::function<void(std::uint32_t job, const event_effect&)> on_event;
  std::function<void(std::uint32_t job, const store_effect&)> on_store;
  // Called with an envelope for a role on another node (index in the plan's nodes). Must not block.
  std::function<void(std::uint32_t node, envelope)> on_remote;
};

struct host_config {
  unsigned threads = 0;  // scheduler threads; 0: one per core
  host_callbacks callbacks;
  // The node's devices, by the number that role_plan::device has; empty: the CPU only.
  std::vector<std::shared_ptr<device>> devices;
  // Capacity in bytes of each job's log of delivered messages, with which a failed job can be
  // replayed (job_log.hpp). A full log drops its oldest messages. 0: no log.
  std::size_t message_log = std::size_t{4} << 20;
  // Capacity in bytes of the record of what roles did (runtime/trace/recorder.hpp); 0: none;
  // nullopt: 8 MiB, or a 64th of this process's memory if that is less.
  std::optional<std::size_t> activity_record = {};
};

// A role with its place, for callers that construct roles themselves (tests, actor-based layers).
struct seat {
  role_id id = no_role;
  std::string name;
  std::uint32_t slots = 1;   // > 1: that many sub-solver actors run the tasks; otherwise the role's own actor runs them
  std::uint32_t device = 0;  // that its tasks run on: index in host_config::devices
  maths_rules maths = {};    // of the streams that run them
  // The role's long tasks wait while sub-solvers have tasks that no thread has begun. For roles
  // whose long sums and updates can use the threads that the last packets of a step leave idle;
  // only in jobs where the step ends with these tasks.
  bool gives_way = false;
  std::unique_ptr<role> value;
  std::string_view kind = {};  // of the role, a literal; for role_published
};

class node_host final : public job_host {
 public:
  explicit node_host(host_config c);
  ~node_host() override;  // ends all jobs and joins all threads
  node_host(const node_host&) = delete;
  node_host& operator=(const node_host&) = delete;

  // Spawns the roles of `j` that the plan places on node `me`. They send nothing until `start`
  // reaches the coordinator. The headers of their messages have `plan_generation` as incarnation;
  // messages of roles of an earlier generation are dropped.
  void spawn(std::uint32_t job, const std::shared_ptr<const prepared_job>& j, std::uint32_t me,
             std::uint32_t plan_generation = 0) override;
  // Spawns roles that the caller has constructed. `node_of`: index of every role's node, by
  // role_id. Throws std::invalid_argument if the job is already spawned, or a seat has no role,
  // another node, an unknown device, or an id that is already taken.
  // `plan`: for plans().
  void spawn(std::uint32_t job, std::vector<seat> seats, std::vector<std::uint32_t> node_of, std::uint32_t me,
             std::uint32_t plan_generation = 0, std::shared_ptr<const prepared_job> plan = {});
  // Delivers a message to a role hosted here. Messages for unknown roles and jobs are counted and
  // dropped.
  void deliver(envelope e);
  // Sends an operator's command to the job's coordinator, which must be on this node.
  void command(std::uint32_t job, troupe::command c);
  // Ends the job's roles; returns when they have ended, after at most the running tasks. Must not
  // be called from a callback: it would wait for itself.
  void end(std::uint32_t job) override;
  // The last published status of each role, at most about 100 ms old while roles handle messages.
  // Never waits for a role.
  std::vector<role_published> published() const;
  // The log of messages delivered to the roles of a job on this node. It grows while the job runs
  // and is complete when `end` has returned. Null: no such job, or no log.
  std::shared_ptr<const job_log> log_of(std::uint32_t job) const;
  host_counts counts() const;
  // The plans of which roles are here, if they were spawned as a job.
  std::vector<std::shared_ptr<const prepared_job>> plans() const;
  // What the roles did lately; it outlives them and their jobs. Null: nothing is recorded.
  const activity_recorder* activities() const;
  // The actor system, for the control plane's actors. Include actors/shell/node_host_caf.hpp to use
  // it.
  caf::actor_system& system();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
