// The keys of a job file as dotted paths ("train.dynamics.lr"): for hints about a key in the wrong
// table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/job/tables.hpp"

namespace troupe {

// All keys of a job file except those of [[layer]], with the options of the entries that a table
// may choose.
std::vector<std::string> job_key_paths(const tables& all);

// The `paths` that end with the key `name`, or else with the most similar key; of several, the
// least nested ones. Empty if no key is similar.
std::vector<std::string> places_of_key(std::string_view name, const std::vector<std::string>& paths);

}  // namespace troupe
