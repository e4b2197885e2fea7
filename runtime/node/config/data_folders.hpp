// Restricts where a daemon reads data for submitted jobs: under the folders of its cluster file
// (`data`) only. Paths are resolved as the system would, links included, before anything is opened.
// The error for a path outside is the same whether or not the path exists. Errors: values.
// Threads: functions without state.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/data/source.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// The same check for the checkpoint folder of a job, which only the coordinator's node writes to
// (`checkpoints` in the cluster file).
expected<void, diagnostic> check_folders(const checkpoint_spec& c, const std::vector<std::string>& folders);

// Returns a diagnostic if this job's data is outside the folders, or leads outside through links;
// none if it may be opened. Under `withheld` nothing may be opened, nor in a folder that is kept
// for a job (runtime/record/job_owner.hpp): a checkpoint must not be read as data.
expected<void, diagnostic> check_folders(const data_spec& d, const source_type& type, const std::vector<std::string>& folders,
                                         const std::vector<std::string>& withheld = {});

}  // namespace troupe
