// JSON schemas (draft 7) of the job file and of the cluster file, for editors, from the tables that
// the readers use: types, ranges, words, defaults, descriptions, and the options of the entry that
// a table names. They accept what the readers accept, as far as one table decides: keys that
// contradict each other, and keys that a file with `include` must have, are left to the readers.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/job/tables.hpp"

namespace troupe {

nlohmann::ordered_json job_schema(const tables& all);
nlohmann::ordered_json cluster_schema();

}  // namespace troupe
