// Job executor: the slow and blocking work for the running job. It makes plans, makes and ends
// roles, hashes and writes weights, and stores the files that jobs start from. Its public functions
// perform the operations of controller/operations.hpp. One detached actor runs it, one operation at
// a time, so no other actor waits for a disk. The checker (checker.hpp) checks submissions, so that
// they do not delay this.
// Errors: values. An exception (std::bad_alloc, or of a plugin) becomes the error of the operation
// (controller/operation.hpp).
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/result.hpp"
#include "runtime/cluster/controller/orders.hpp"
#include "runtime/cluster/job_host.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/executor/job_preparer.hpp"
#include "runtime/node/executor/job_reading.hpp"
#include "runtime/node/executor/job_runs.hpp"
#include "runtime/node/executor/memory_book.hpp"
#include "runtime/node/executor/post_mortems.hpp"
#include "runtime/node/executor/state_store.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe::control {

class job_executor {
 public:
  struct place {
    job_place jobs;
    job_host& host;
    job_routes& route;
    std::shared_ptr<device> dev = {};                       // the node's first: runs the fillers; null: tensors have no values
    std::map<std::uint32_t, unfinished_job> taken_up = {};  // by job id: restored from the journal
    before_write before = {};                               // called before every write of checkpoints and weights to files
    // The following outlive the executor.
    memory_book* memory = nullptr;                 // null: all memory is the job's
    job_runs* runs = nullptr;                      // null: jobs get no run folder here
    post_mortems* failures = nullptr;              // null: no post-mortems
    std::function<void()> release_memory = [] {};  // called when roles have ended
    std::function<void(const std::string&)> log = [](const std::string&) {};
    std::shared_ptr<job_preparer> plans = {};  // null: those that this node makes
    std::shared_ptr<state_store> states = {};  // null: files (file_states.hpp)
    bool reserves_memory = true;               // false: a simulation, in which jobs use none of this machine's
  };
  explicit job_executor(place at);

  expected<void> keep(const keep_piece& what);
  void drop(std::uint32_t job);  // removes the job's file
  expected<void> make(const prepare& what);
  // The next plan of the job. amend: on the coordinator's node only.
  expected<plan_found> amend(const check_move& what);
  expected<void> revise(const control::revise& what);
  expected<void> swap(const control::swap& what);
  void forget(std::uint32_t job, std::uint32_t plan_generation);
  void drop_beginning_of(std::uint32_t job);
  void hand_over(std::uint32_t job, const store_effect& what);  // by the plan that ends
  expected<std::string> end(const end_roles& what);
  expected<stored> save(const write_state& what);
  void end_run(const control::end_run& what) const;
  void remove_old_folders() const;

 private:
  struct upload {
    given_file what;
    std::vector<std::string> overrides;  // of the job file
    std::optional<going_back> since;     // commands after it was written
  };
  expected<handover> last_kept(const prepared_job& j);
  expected<void> read_original(std::uint32_t job, const job_text& what);
  bool leaves_enough(const check_move& what) const;
  expected<std::uint64_t> go_back(const prepared_job& j, const check_move& what);
  expected<std::shared_ptr<const prepared_job>> continued(std::shared_ptr<const prepared_job> j, const prepare& what);
  job_origin origin_of(const prepare& what) const;
  expected<void> record(std::shared_ptr<const prepared_job>& j) const;
  expected<void> reserve_memory(const prepared_job& j);
  void promise(std::uint64_t bytes);
  expected<void> spawn(const std::shared_ptr<const prepared_job>& j, std::uint32_t plan_generation);
  void roles_end(std::uint32_t job, bool swaps) const;
  std::filesystem::path folder_of(const prepared_job& j) const;

  const place at_;
  const std::shared_ptr<job_preparer> plans_;
  const std::shared_ptr<state_store> states_;
  std::uint64_t promised_ = 0;                    // bytes of memory reserved for the hosted job
  std::shared_ptr<const prepared_job> job_;       // the running plan
  std::shared_ptr<const prepared_job> original_;  // that job as submitted; or one whose next plan is made here
  std::shared_ptr<const prepared_job> next_;      // the next plan
  std::uint32_t next_generation_ = 0;
  job_origin origin_, next_origin_;  // of job_ and next_
  struct handed {
    std::uint32_t plan_generation = 0;  // of the plan that starts with it
    store_effect what;
  };
  std::optional<handed> handed_;
  // The handover with which the running plan began, until its first step. Before that not all its
  // shards have received it, and a failure would lose all steps since the last checkpoint.
  std::optional<store_effect> began_;
  std::map<std::uint32_t, upload> uploads_;  // by job id: files that jobs start from
};

// Adds the commands that users gave after the handover was saved.
void take_along(handover& h, const going_back& since);

}  // namespace troupe::control
