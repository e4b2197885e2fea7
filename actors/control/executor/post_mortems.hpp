// Writes the post-mortem of a job that failed on this node (actors/view/failed_job.hpp).
// Errors: logged.  Threads: one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/control/messages.hpp"
#include "actors/view/failed_job.hpp"

namespace troupe::control {

class post_mortems {
 public:
  // `said`: the events of jobs that this daemon coordinates. Both outlive this.
  post_mortems(const node_host& host, const repl_events& said, std::function<void(const std::string&)> log)
      : host_(host), said_(said), log_(std::move(log)) {}

  // The roles of a plan are about to end. `swaps`: the job's next plan replaces them; else the job
  // may have failed. A plan that restarted after a role failure starts from shard state and cannot
  // be replayed; the plan before it can, and is remembered for that.
  void roles_end(std::shared_ptr<const prepared_job> j, job_origin from, bool swaps);
  // The job is over. Returns the folder of the post-mortem; empty: the job has not failed, or the
  // folder could not be written.
  std::string job_ended(const end_job& why);

 private:
  std::string write(const end_job& why, const failed_job& what) const;

  const node_host& host_;
  const repl_events& said_;
  const std::function<void(const std::string&)> log_;
  std::unique_ptr<failed_job> last_;    // the plan whose roles have just ended
  std::unique_ptr<failed_job> before_;  // the job's last replaced plan that can be replayed
};

}  // namespace troupe::control
