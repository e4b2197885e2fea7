// The keys of a cluster file, by table (keys.hpp). cluster_file.cpp uses them to read files.
#pragma once

#include <vector>

#include "runtime/node/config/keys.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

const keys<cluster_spec>& cluster_file_keys();  // keys outside any table
const keys<cluster_spec>& cluster_keys();
const keys<cluster_spec>& tls_keys();
const keys<node_spec>& node_keys();

// All tables, in the order of the reference page.
std::vector<key_table> cluster_tables();

}  // namespace troupe
