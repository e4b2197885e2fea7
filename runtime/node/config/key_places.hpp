// Where the keys of a job file stand, as dotted paths ("train.dynamics.lr"): for hints about a key
// that stands in the wrong table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/job/tables.hpp"

namespace troupe {

// Every key of a job file but those of [[layer]], with the options of the rows that a table may
// name.
std::vector<std::string> job_key_paths(const tables& all);

// Those of `paths` that end with the key `name`, or else with the nearest word to it. Of several
// the least deep ones; none: nothing is near.
std::vector<std::string> places_of_key(std::string_view name, const std::vector<std::string>& paths);

}  // namespace troupe
