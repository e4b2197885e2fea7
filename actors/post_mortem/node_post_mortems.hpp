// Writes the post-mortem of a job that failed on this node (failed_job.hpp).
// Errors: logged.  Threads: one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/post_mortem/failed_job.hpp"
#include "runtime/node/executor/post_mortems.hpp"

namespace troupe::control {

class node_post_mortems final : public post_mortems {
 public:
  // `said`: the events of jobs that this daemon coordinates. Both outlive this.
  node_post_mortems(const node_host& host, const repl_events& said, std::function<void(const std::string&)> log)
      : host_(host), said_(said), log_(std::move(log)) {}

  // A plan that restarted after a role failure starts from shard state and cannot be replayed; the
  // plan before it can, and is remembered for that.
  void roles_end(std::shared_ptr<const prepared_job> j, job_origin from, bool swaps) override;
  std::string job_ended(const end_job& why) override;

 private:
  std::string write(const end_job& why, const failed_job& what) const;

  const node_host& host_;
  const repl_events& said_;
  const std::function<void(const std::string&)> log_;
  std::unique_ptr<failed_job> last_;    // the plan whose roles have just ended
  std::unique_ptr<failed_job> before_;  // the job's last replaced plan that can be replayed
};

}  // namespace troupe::control
