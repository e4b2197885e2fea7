// The owner of what a daemon keeps for a job: the name in the certificate of the client that
// submitted the job. It is in the file `job-owner` of each folder that the daemon makes for the job
// (weights, checkpoints, recordings, runs, post-mortems), as one line, so that it is known when
// only the folder is left. A folder without this file has an unknown owner: `troupe train` or an
// older version made it.
// Errors: values.  Threads: functions without state.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe {

constexpr const char* job_owner_file = "job-owner";

// Empty: unknown.
std::string owner_of_folder(const std::filesystem::path& folder);

// Writes the owner of a folder that was made for the job. An empty owner (of no client) is not
// written.
expected<void, record_error> set_owner(const std::filesystem::path& folder, const std::string& owner);
// Makes the folder if there is none, and writes its owner. An error if it belongs to another owner,
// or has files but no owner.
expected<void, record_error> claim_folder(const std::filesystem::path& folder, const std::string& owner);

// Returns true if the path is in a folder with an owner.
bool is_in_owned_folder(const std::filesystem::path& path);

// Which of several kept things to remove so that at most `keep` stay. `owners`: of each, the newest
// first. The oldest of the owner with the most goes first, so that the jobs of one owner do not
// displace the only things of another owner. Returns indices in ascending order.
std::vector<std::size_t> surplus(const std::vector<std::string>& owners, std::size_t keep);

}  // namespace troupe
