// What this node knows of a job that has failed, as its post-mortem wants it
// (runtime/node/post_mortem.hpp).
#pragma once

#include <optional>
#include <string>

#include "actors/view/events.hpp"
#include "runtime/node/post_mortem.hpp"

namespace troupe {

class job_log;
class node_host;

// How a host came by a job, kept from when its plan began.
struct job_origin {
  std::filesystem::path home;  // where folders of failed jobs go
  job_text what;
  plan_beginning begins = {};
  bool own_file = false;  // that it begins with: nobody else writes it, so its hash may be taken when the job has failed
  amendments changes = {};
  std::uint32_t plan_generation = 0;
  std::string node;
  std::vector<node_spec> nodes = {};  // that the first plan could use; empty: as the plan says
};

// Its roles, taken while they are there; to be written when they have ended, and their log is
// whole.
class failed_job {
 public:
  failed_job(const node_host& host, std::shared_ptr<const prepared_job> j, job_origin from);
  // It began with something that is kept.
  bool replays() const { return log_ && from_.begins.kind != plan_beginning::with::handover; }
  // The folder, or why there is none. `said`: by this job.
  std::variant<std::string, record_error> write(const std::string& where, const std::string& error, std::uint64_t step,
                                                const std::vector<repl_event>& said) const;

 private:
  std::shared_ptr<const prepared_job> job_;
  job_origin from_;
  std::shared_ptr<const job_log> log_;  // null: none is kept
  std::vector<std::pair<role_id, post_mortem_role>> roles_;
};

// A file that a plan begins with. Its hash is taken when the job has failed, and only if it is the
// same file still.
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
