// The order of tables and keys in a laid out file (toml_layout.hpp): that of the reference. In a
// table that names an entry, the name of the table, of the entry and the inputs come first, then
// the options of the entry, then the other keys.
#pragma once

#include "runtime/job/tables.hpp"
#include "runtime/node/config/toml_layout.hpp"

namespace troupe {

layout_order order_of_job_keys(const tables& all);
layout_order order_of_cluster_keys();

}  // namespace troupe
