// The job of `troupe new --data`: a net, batch and length that fit a user's data
// (troupe_data_look.hpp), with the scaling that makes its values mean 0 and deviation 1.
// Errors: values that name the file.  Threads: functions without state.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/tables.hpp"

namespace troupe {

struct data_job {
  std::string text;               // TOML
  std::vector<std::string> seen;  // sentences for people
};

// Opens the data, so that a mistake in it is an error here. `label`: see look_at_data().
expected<data_job> job_of_data(const std::string& path, const std::string& label, const std::string& name, const tables& all);

}  // namespace troupe
