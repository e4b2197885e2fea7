// Where a node keeps the saved state of its jobs: checkpoints, final weights, and what jobs start
// from. file_states.hpp keeps files, as daemons do; memory_states.hpp keeps them in the memory of a
// simulated machine.
// Errors: values.  Threads: one. The job executor and the checker of a daemon have a store each,
// for the same files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/cluster/controller/operations.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/job/job.hpp"
#include "runtime/record/second_place.hpp"
#include "runtime/role.hpp"

namespace troupe::control {

class state_store {
 public:
  virtual ~state_store() = default;

  // --- what a running job saves. `owner`: the client that submitted it.

  // This job was restored from the journal, and its newest checkpoint is at `kept`. Called before
  // it saves anything.
  virtual void goes_on(std::uint32_t job, const std::string& kept) = 0;
  virtual kept_file save_checkpoint(const prepared_job& j, const std::string& owner, const store_effect& what) = 0;
  virtual kept_file save_weights(const prepared_job& j, const std::string& owner, const store_effect& what) = 0;
  // The newest sound checkpoint that this job has saved, as the handover with which its plan `j`
  // begins; nullopt: there is none.
  virtual expected<std::optional<handover>, record_error> newest(const prepared_job& j) = 0;
  // Removes what the oldest jobs have saved, but not what `running` has (null: no job runs).
  // Returns the number of those jobs.
  virtual std::size_t remove_old(const prepared_job* running) = 0;

  // --- what a job starts from

  virtual expected<void> keep(const keep_piece& what) = 0;  // a piece of a client's file
  // Takes the newest checkpoint of a job of this name and owner, as if the client had given it;
  // nullopt: there is none. `notes`: newer ones that do not verify.
  virtual expected<std::optional<given_file>> take_newest(const prepared_job& j, std::uint32_t job, const std::string& owner,
                                                          std::vector<std::string>& notes) = 0;
  virtual bool has_given(std::uint32_t job) const = 0;
  virtual void drop(std::uint32_t job) = 0;  // what the job starts from is not needed again
  // Makes the handover with which the job begins. `given`: as the client, or the journal, names it.
  virtual expected<void, record_error> begin(prepared_job& j, std::uint32_t job, const given_file& given,
                                             const std::vector<std::string>& overrides) = 0;
  // An error if the job's `checkpoint.dir` is not a place for checkpoints.
  virtual expected<void> check_place(const prepared_job& j) = 0;
};

}  // namespace troupe::control
