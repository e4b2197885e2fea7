// The settings that configs/jobs/lenet_modes.toml documents, read from its own lines, for the tests
// that run them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace troupe::testing_cluster {

// A file of configs/jobs.
std::string config_text(const std::string& file);

// By mode: what follows every --set of its line. bsp is the file as it stands.
std::map<std::string, std::vector<std::string>> documented_modes();

// Of four daemons with a worker each: hogwild shares memory within each node.
std::map<std::string, std::vector<std::string>> modes_for_four_nodes();

}  // namespace troupe::testing_cluster
