// Origin of the plan that a host runs: what a post-mortem and a recording say about it
// (runtime/node/post_mortem.hpp), and the recording of plans of a job that wants it.
// Errors: values.  Threads: functions without state.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/post_mortem.hpp"

namespace troupe {

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

// What a post-mortem says about the plan `j`, which begins or has begun. Without its messages.
post_mortem post_mortem_of(const prepared_job& j, const job_origin& from);

// If the job is to be recorded, makes the folder of this plan and sets j.messages_file. Call before
// the roles are made. `numerics`: numerics id of the device that the job computes on.
expected<void, record_error> begin_recording(prepared_job& j, const job_origin& from, const std::string& numerics);

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
