// Reads a job, with the file that it starts from, for the checker and the job executor. They run on
// different threads; these functions have no state and share only files.
// Errors: values. Nothing throws.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/cluster/controller/journal.hpp"
#include "runtime/cluster/controller/orders.hpp"
#include "runtime/job/job.hpp"
#include "runtime/job/opened_data.hpp"
#include "runtime/job/plan_hash.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe::control {

// The node that reads the job: its plugins, data folders and state folder.
struct job_place {
  const cluster_spec& cluster;
  std::string self, numerics;
  std::shared_ptr<const tables> all;
  std::filesystem::path state;               // empty: the node has no files (a simulation; state_store.hpp)
  std::shared_ptr<opened_data> opened = {};  // null: each job opens its data anew
};

expected<std::shared_ptr<prepared_job>, diagnostics> read_job(const job_place& at, const job_text& what);

// The facts about a plan that the cluster controller needs.
checked facts_of(const prepared_job& j);

// What to tell the submitter of a job whose parameters are on other nodes than `coordinator`, each
// on one node only, and which could have replicas. Empty: nothing. The failure of the coordinator's
// node sets any job back.
std::string advice_on_replicas(const prepared_job& j, const std::string& coordinator);

// Path of the file that this job starts from: by the job's number, which stays the same over
// restarts of the daemon.
std::filesystem::path given_path(const job_place& at, std::uint32_t job);
// Makes the handover with which the job begins, from the file at given_path().
expected<void, record_error> begin_with_given(const job_place& at, prepared_job& j, std::uint32_t job, const given_file& given,
                                              const std::vector<std::string>& overrides);

// The folder for a job's checkpoints, on the node of its coordinator role: below the state folder,
// or where the job file says.
std::filesystem::path checkpoint_folder(const job_place& at, const prepared_job& j);
// Puts the newest checkpoint of a job of this name and owner at given_path(job); nullopt: there is
// none. An error if there are only checkpoints whose owner is unknown. `notes`: newer checkpoints
// that were skipped because they do not verify.
expected<std::optional<given_file>> take_newest(const job_place& at, const prepared_job& j, std::uint32_t job,
                                                const std::string& owner, std::vector<std::string>& notes);

// Called at the start of a daemon. Puts the newest checkpoints of restored jobs at their
// given_path() and removes files of other jobs. Errors: ignored here; starting such a job then
// finds no file.
void take_up_given(const job_place& at, const std::vector<unfinished_job>& jobs);

}  // namespace troupe::control
