// The folders of a node's state in which its jobs leave weights and checkpoints, and which of them
// stay: the newest `keep_job_folders` by the time of their last change, and whatever runs. Nobody
// is asked, so a checkpoint that is to outlive as many later jobs belongs elsewhere.
// Errors: a folder that cannot be removed stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::control {

constexpr std::size_t keep_job_folders = 64;

std::string safe_job_name(const std::string& name);  // as a part of a file's name
// "job-NUMBER-NAME-LIFE"
std::string job_folder_name(std::uint32_t job, const std::string& name);
bool is_job_folder_name(const std::string& name);
std::string job_name_of_folder(const std::string& name);  // NAME; empty: it is no such folder

// Removes the others of `state`, all but `in_use`; returns how many.
std::size_t remove_old_job_folders(const std::filesystem::path& state, const std::filesystem::path& in_use,
                                   std::size_t keep = keep_job_folders);

}  // namespace troupe::control
