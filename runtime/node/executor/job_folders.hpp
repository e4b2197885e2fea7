// The folders below a node's state folder in which jobs leave weights and checkpoints, their owners
// (runtime/record/job_owner.hpp), and their removal. `keep_job_folders` by time of last change are
// retained, and that of the running job; the oldest of the owner with the most goes first. Removal
// needs no confirmation, so a checkpoint that must outlive that many later jobs belongs elsewhere.
// Errors: a folder that cannot be removed stays.
#pragma once

#include <cstddef>
#include <filesystem>

#include "runtime/cluster/job_folder_names.hpp"

#include "runtime/cluster/controller/journal.hpp"

namespace troupe::control {

constexpr std::size_t keep_job_folders = 64;

// Writes the owners of folders that an earlier version made without, as far as the journal knows
// them. Called at the start of the coordinator's daemon.
void give_known_owners(const std::filesystem::path& state, const journal_content& found);

// Removes all but the newest `keep` job folders below `state`, and never `in_use`. Returns the
// number removed.
std::size_t remove_old_job_folders(const std::filesystem::path& state, const std::filesystem::path& in_use,
                                   std::size_t keep = keep_job_folders);

}  // namespace troupe::control
