// Names of the folders of jobs in a node's state folder (executor/job_folders.hpp).
#pragma once

#include <cstdint>
#include <string>

namespace troupe::control {

std::string safe_job_name(const std::string& name);  // usable in a file name
// "job-NUMBER-NAME-TAG"; TAG is that of the daemon's incarnation (admission.hpp).
std::string job_folder_name(std::uint32_t job, const std::string& name);
bool is_job_folder_name(const std::string& name);
std::string job_name_of_folder(const std::string& name);  // NAME; empty: not such a folder

}  // namespace troupe::control
