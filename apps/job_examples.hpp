// The job files that `troupe new` starts from.
#pragma once

#include <map>
#include <string>

namespace troupe {

// Texts of files in configs/jobs, by name without extension. They are part of the program.
const std::map<std::string, std::string>& job_examples();

}  // namespace troupe
