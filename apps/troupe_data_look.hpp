// What a file or folder of a user's data is: the source that reads it, and the options of that
// source, for `troupe new --data`.
//   FOLDER      images in class folders; IDX files of MNIST's names; .npy files of NumPy
//   FILE.csv    (.tsv) a table: one column is the label or the target; others that are no numbers
//               are ignored
//   FILE.npz    arrays of NumPy
//   FILE.txt    a text for a character model
// Only a part of large files is looked at; opening the source reads all.
// Errors: values that name the file and say what to do.  Threads: functions without state.
#pragma once

#include <string>
#include <vector>

#include "ops/options.hpp"
#include "runtime/base/result.hpp"

namespace troupe {

struct looked_at {
  std::string source;             // "csv"
  options values;                 // of the source; those that are not here keep their defaults
  std::vector<std::string> seen;  // sentences for people
};

// `label`: the column of a table to predict; empty: one of a usual name, else the last.
expected<looked_at> look_at_data(const std::string& path, const std::string& label);

}  // namespace troupe
