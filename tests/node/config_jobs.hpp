// The files under configs/, as prepared jobs, for tests. Functions report a mistake as the failure
// of the test that calls them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/job/job.hpp"

namespace troupe::testing_configs {

// The TOML files of configs/FOLDER, sorted.
std::vector<std::string> files_in(const std::string& folder);
std::string text_of(const diagnostics& list);
// Data sets that no package has are replaced by small ones. Jobs are kept: opening a data set takes
// a second.
std::shared_ptr<prepared_job> prepared(const std::string& name, const std::vector<node_spec>& nodes,
                                       std::vector<std::string> overrides = {});
std::vector<node_spec> one_node();
std::vector<node_spec> nodes_of(const std::string& cluster);
// The job of a file, on the cluster that it is written for, or on one node.
std::shared_ptr<prepared_job> job_of_file(const std::string& name);

}  // namespace troupe::testing_configs
