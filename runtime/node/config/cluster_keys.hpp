// The keys of a cluster file, table by table (keys.hpp). cluster_file.cpp reads by them.
#pragma once

#include <vector>

#include "runtime/node/config/keys.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

const keys<cluster_spec>& cluster_file_keys();  // the file itself
const keys<cluster_spec>& cluster_keys();
const keys<cluster_spec>& tls_keys();
const keys<node_spec>& node_keys();

// All of them, in the order of a page.
std::vector<key_table> cluster_tables();

}  // namespace troupe
