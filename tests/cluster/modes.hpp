// The settings that configs/jobs/lenet_modes.toml documents in its comments, for the tests that run
// them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace troupe::testing_cluster {

// The text of a file of configs/jobs.
std::string config_text(const std::string& file);

// For each mode the values of every --set of its line. bsp is the file without changes.
std::map<std::string, std::vector<std::string>> documented_modes();

// The same for four daemons with one worker each. hogwild only in its variant that shares memory
// within each node.
std::map<std::string, std::vector<std::string>> modes_for_four_nodes();

}  // namespace troupe::testing_cluster
