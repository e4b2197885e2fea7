// Collects what this node knows of a failed job and writes its post-mortem
// (runtime/node/post_mortem.hpp).
#pragma once

#include <string>

#include "runtime/base/result.hpp"
#include "runtime/cluster/view/events.hpp"
#include "runtime/node/executor/job_origin.hpp"
#include "runtime/node/post_mortem.hpp"

namespace troupe {

class activity_recorder;
class job_log;
class node_host;

// A failed job. `host` must outlive it. The constructor copies the state of its roles while they
// exist; write() is called when they have ended and their log is complete.
class failed_job {
 public:
  failed_job(const node_host& host, std::shared_ptr<const prepared_job> j, job_origin from);
  // Returns true if the job can be replayed: there is a log, and the state that the plan began with
  // is stored.
  bool replays() const { return log_ && from_.begins.kind != plan_beginning::with::handover; }
  // Writes the post-mortem. Returns its folder, or the error. `said`: the job's events.
  expected<std::string, record_error> write(const std::string& where, const std::string& error, std::uint64_t step,
                                            const std::vector<repl_event>& said) const;

 private:
  std::shared_ptr<const prepared_job> job_;
  job_origin from_;
  std::shared_ptr<const job_log> log_;  // null: no log
  const activity_recorder* record_;     // of the host, which outlives this; null: none
  std::vector<std::pair<role_id, post_mortem_role>> roles_;
};

}  // namespace troupe
