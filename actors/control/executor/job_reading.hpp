// Reading a job as a node may, and with the file that it begins with: for whoever checks
// submissions and whoever makes roles. Both do it on threads of their own, so all of this is
// without state: what they share are files.
// Errors: values. Nothing throws.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/control/controller/cluster_controller.hpp"
#include "actors/control/controller/journal.hpp"
#include "runtime/job/job.hpp"
#include "runtime/job/plan_hash.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe::control {

// Whose plugins, folders of data and state they are.
struct job_place {
  const cluster_spec& cluster;
  std::string self, numerics;
  std::shared_ptr<const tables> all;
  std::filesystem::path state;
};

using read_outcome = std::variant<std::shared_ptr<prepared_job>, diagnostics>;
read_outcome read_job(const job_place& at, const job_text& what);

// What the cluster controller has to know of a plan.
checked facts_of(const prepared_job& j);

// Where the file that this job begins with is kept: by its number, which outlives the daemon.
std::filesystem::path given_path(const job_place& at, std::uint32_t job);
std::optional<record_error> begin_with_given(const job_place& at, prepared_job& j, std::uint32_t job, const given_file& given,
                                             const std::vector<std::string>& overrides);

// Where the checkpoints of a job go, on the node that has its coordinator role: below the state, or
// where the job says.
std::filesystem::path checkpoint_folder(const job_place& at, const prepared_job& j);
// The newest that is kept of a job of this name, put where the file of `job` would be; nothing:
// there is none. `notes`: newer ones that do not verify.
std::variant<std::optional<given_file>, std::string> take_newest(const job_place& at, const prepared_job& j, std::uint32_t job,
                                                                 std::vector<std::string>& notes);

// At the start of a daemon: files of jobs that are to be taken up are where they belong (a
// checkpoint in the place of the file that its job had begun with), others are gone. Errors: those
// jobs are found to have no file.
void take_up_given(const job_place& at, const std::vector<unfinished_job>& jobs);

}  // namespace troupe::control
