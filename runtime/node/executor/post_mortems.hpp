// What a job executor tells the writer of post-mortems; in daemons, node_post_mortems.
// Threads: that of the job executor.
#pragma once

#include <memory>
#include <string>

#include "runtime/cluster/messages.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/executor/job_origin.hpp"

namespace troupe::control {

class post_mortems {
 public:
  virtual ~post_mortems() = default;
  // The roles of a plan are about to end. `swaps`: the job's next plan replaces them; else the job
  // may have failed.
  virtual void roles_end(std::shared_ptr<const prepared_job> j, job_origin from, bool swaps) = 0;
  // The job is over. Returns the folder of the post-mortem; empty: the job has not failed, or the
  // folder could not be written.
  virtual std::string job_ended(const end_job& why) = 0;
};

}  // namespace troupe::control
