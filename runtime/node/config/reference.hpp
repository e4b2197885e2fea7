// The pages docs/job-file.md and docs/cluster-file.md, generated from the tables that the readers
// use: every key with its kind, default and range, and every registry entry that a job may name,
// with its options. `troupe reference` prints them.
#pragma once

#include <string>

#include "runtime/job/tables.hpp"
#include "runtime/node/config/keys.hpp"

namespace troupe {

// The values that a key or an option accepts, as markdown: "number, at least 0".
std::string accepted_values(const key_descriptor& k);
std::string accepted_values(const option_spec& s);

std::string job_reference(const tables& all);
std::string cluster_reference();

}  // namespace troupe
