// The tables of a job file whose keys depend on the registry entry that they name: [data] on the
// source, [[layer]] on the type.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/job/tables.hpp"

namespace troupe {

// The entries that a table may name, and the key that names one.
struct table_choice {
  std::string key;  // empty: the table has the options of the entry ""
  std::vector<std::string> names;
  std::map<std::string, option_specs> options;
};

// By path: "data", "layer", "train.dynamics".
std::map<std::string, table_choice> choices_of(const tables& all);

}  // namespace troupe
