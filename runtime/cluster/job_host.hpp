// The interfaces through which a job executor uses its node: job_host runs the roles of a job,
// job_routes knows on which nodes the other roles are. Daemons use node_host and router; simulated
// daemons (runtime/node/simulation) use a simulator's world.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

struct prepared_job;  // runtime/job/job.hpp

class job_host {
 public:
  virtual ~job_host() = default;
  // Spawns the roles of `j` that the plan places on node `me`. Throws if they cannot be spawned.
  virtual void spawn(std::uint32_t job, const std::shared_ptr<const prepared_job>& j, std::uint32_t me,
                     std::uint32_t plan_generation) = 0;
  // Ends the job's roles; returns when they have ended.
  virtual void end(std::uint32_t job) = 0;
};

class job_routes {
 public:
  virtual ~job_routes() = default;
  // `nodes`: names of the plan's nodes, by index; `node_of`: index of a role's node, by role.
  virtual void open(std::uint32_t job, std::vector<std::string> nodes, std::vector<std::uint32_t> node_of) = 0;
  virtual void close(std::uint32_t job) = 0;
};

}  // namespace troupe
