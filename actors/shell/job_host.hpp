// What a keeper needs of the node that its roles live on: somebody who hosts them, and somebody who
// knows on which nodes the others are. On a daemon node_host and router; in a simulation of daemons
// (tests/recovery) what stands for both.
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
  // Spawns the roles of `j` that live on node `me`; `plan_generation`: which plan of the job.
  // Throws when they cannot be.
  virtual void spawn(std::uint32_t job, const std::shared_ptr<const prepared_job>& j, std::uint32_t me,
                     std::uint32_t plan_generation) = 0;
  // Ends the job's roles; returns when they are gone.
  virtual void end(std::uint32_t job) = 0;
};

class job_routes {
 public:
  virtual ~job_routes() = default;
  // `nodes`: of the plan, by index; `node_of`: by role.
  virtual void open(std::uint32_t job, std::vector<std::string> nodes, std::vector<std::uint32_t> node_of) = 0;
  virtual void close(std::uint32_t job) = 0;
};

}  // namespace troupe
