// The pages docs/job-file.md and docs/cluster-file.md, generated from the tables that the readers
// use: every key with its kind, default and range, and every registry entry that a job may name,
// with its options. `troupe reference` prints them.
#pragma once

#include <string>

#include "runtime/job/tables.hpp"

namespace troupe {

std::string job_reference(const tables& all);
std::string cluster_reference();

}  // namespace troupe
