// Collects what this node knows of a failed job and writes its post-mortem; records the plans of a
// job that wants it (runtime/node/post_mortem.hpp).
#pragma once

#include <string>

#include "actors/view/events.hpp"
#include "runtime/base/result.hpp"
#include "runtime/node/post_mortem.hpp"

namespace troupe {

class activity_recorder;
class job_log;
class node_host;

// Origin of a job, recorded when its plan began.
struct job_origin {
  std::filesystem::path home;  // parent of the folders of failed jobs; empty: none are made
  job_text what;
  plan_beginning begins = {};
  bool own_file =
      false;  // the plan begins with a file that only this process writes, so its hash may be computed after the failure
  amendments changes = {};
  std::uint32_t plan_generation = 0;
  std::string node;
  std::string owner = {};                 // the client that submitted it; empty: none
  std::vector<node_spec> nodes = {};      // nodes that the first plan could use; empty: those of the plan
  std::filesystem::path recordings = {};  // parent of the folders of recorded plans; empty: none are made
};

// If the job is to be recorded, makes the folder of this plan and sets j.messages_file. Call before
// the roles are made. `numerics`: numerics id of the device that the job computes on.
expected<void, record_error> begin_recording(prepared_job& j, const job_origin& from, const std::string& numerics);

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

// A file that a plan begins with. Its hash is computed only after a failure, and only if the file
// is unchanged since then.
class beginning_file {
 public:
  beginning_file(plan_beginning::with kind, const std::string& file, std::uint64_t step);
  plan_beginning now() const;

 private:
  std::string stamp() const;
  plan_beginning begins_;
  std::string then_;
};

}  // namespace troupe
