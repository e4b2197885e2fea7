// Where a daemon reads data for whoever submits jobs: under the folders of its cluster file
// (`data`), and nowhere else. What a client names is resolved as the system would, links included,
// before anything is opened; and the answer to what lies outside is the same whether or not it is
// there. Errors: values. Threads: functions without state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/data/source.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// Likewise of the folder that a job's checkpoints go to, which only the coordinator's node writes
// into (`checkpoints` in the cluster file).
std::optional<diagnostic> outside_of_folders(const checkpoint_spec& c, const std::vector<std::string>& folders);

// What is wrong when this job's data lies elsewhere, or leads elsewhere by links; none: it may be
// opened.
std::optional<diagnostic> outside_of_folders(const data_spec& d, const source_type& type, const std::vector<std::string>& folders);

}  // namespace troupe
