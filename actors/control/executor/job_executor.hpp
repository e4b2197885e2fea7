// What takes long and blocks, for the control plane and the job that runs: makes its plans, makes
// and ends its roles, hashes and writes its weights, keeps the files that jobs begin with. Run by
// one detached actor, one thing at a time, so no other actor ever waits for a disk. Submissions are
// checked by another (checker.hpp), so that none of this waits for them.
// Errors: values. Nothing throws.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/control/controller/cluster_controller.hpp"
#include "actors/control/executor/job_reading.hpp"
#include "actors/control/executor/memory_book.hpp"
#include "actors/shell/job_host.hpp"
#include "actors/view/failed_job.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/job/job.hpp"
#include "runtime/record/file_io.hpp"
#include "runtime/record/second_place.hpp"

namespace troupe::control {

class job_executor {
 public:
  struct place {
    job_place jobs;
    job_host& host;
    job_routes& route;
    std::shared_ptr<device> dev = {};                       // the node's first: what a job begins with is filled there
    std::map<std::uint32_t, unfinished_job> taken_up = {};  // by job: what an earlier life of this daemon had taken
    before_write before = {};                               // every write of checkpoints and weights
    memory_book* memory = nullptr;                          // the daemon's, which outlives this; none: all memory is the job's
  };
  explicit job_executor(place at);

  std::string keep(const keep_piece& what);  // an error, or it is written
  void drop(std::uint32_t job);              // its file
  std::string make(const prepare& what);     // an error, or the roles are spawned
  // Another plan of the job. Of the coordinator's node: what a person's wish makes of the job that
  // runs.
  plan_found amend(const check_move& what);
  std::string revise(const control::revise& what);  // an error, or the plan is made
  std::string swap(const control::swap& what);      // an error, or the roles of that plan are spawned
  void forget(std::uint32_t job, std::uint32_t plan_generation);
  void drop_beginning_of(std::uint32_t job);
  void hand_over(std::uint32_t job, const store_effect& what);  // from the plan that ends
  void end(std::uint32_t job);
  // The plan whose roles are here, and where it came from; nothing: there is none of this job.
  struct running {
    std::shared_ptr<const prepared_job> made;
    job_origin from;
  };
  std::optional<running> running_of(std::uint32_t job) const;
  stored save(std::uint32_t job, const store_effect& what);
  std::size_t remove_old_folders() const;  // of jobs that are over (job_folders.hpp); how many

 private:
  struct upload {
    std::filesystem::path path;
    std::ofstream out;
    given_file what;
    std::vector<std::string> overrides;  // of the job
    std::optional<going_back> since;     // what people had said after it was written
  };
  std::variant<handover, std::string> last_kept(prepared_job& j);
  std::string read_original(std::uint32_t job, const job_text& what);
  bool leaves_enough(const check_move& what) const;
  std::string go_back(prepared_job& j, const check_move& what, std::uint64_t& step);  // an error, or it is handed over
  std::string continue_as(prepared_job& j, const prepare& what);
  plan_found plan_of(const check_move& what);
  job_origin origin_of(const prepare& what) const;
  std::string too_much(const prepared_job& j);
  void promise(std::uint64_t bytes);
  std::string spawn(const std::shared_ptr<const prepared_job>& j, std::uint32_t plan_generation);
  std::filesystem::path folder_of(const prepared_job& j) const;
  std::filesystem::path checkpoints_of(const prepared_job& j) const;
  second_place& elsewhere_of(std::uint32_t job);
  kept_file save_checkpoint_in(const std::filesystem::path& folder, const prepared_job& j, const store_effect& what);
  kept_file save_weights_in(const std::filesystem::path& folder, const prepared_job& j, const store_effect& what);

  const place at_;
  std::uint64_t promised_ = 0;                    // of this node's memory, to the job that is hosted
  std::shared_ptr<const prepared_job> job_;       // hosted now
  std::shared_ptr<const prepared_job> original_;  // the same, or one that may be hosted, as it was submitted
  std::shared_ptr<prepared_job> next_;            // the plan to come
  std::uint32_t next_generation_ = 0;
  job_origin origin_, next_origin_;  // of job_ and next_
  struct handed {
    std::uint32_t plan_generation = 0;  // whose beginning it is
    store_effect what;
  };
  std::optional<handed> handed_;
  // What the plan that runs began with, until it has made a step: before that its shards have not
  // all got it, and a loss would cost all steps since the last checkpoint.
  std::optional<store_effect> began_;
  std::map<std::uint32_t, upload> uploads_;           // by job: files to begin with, until it begins
  std::pair<std::uint32_t, second_place> elsewhere_;  // of the job that saved last
};

// What people had said after this was kept: it holds on.
void take_along(handover& h, const going_back& since);

}  // namespace troupe::control
