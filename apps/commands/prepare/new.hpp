// What `troupe new` writes: one of the examples, or the job of `--data`: a net, batch and length
// that fit a user's data, with the scaling that makes its values mean 0 and deviation 1.
// Errors: values that name the file.  Threads: functions without state.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/options.hpp"
#include "runtime/base/result.hpp"
#include "runtime/job/tables.hpp"

namespace troupe {

struct data_job {
  std::string text;               // TOML
  std::vector<std::string> seen;  // sentences for people
};

// Opens the data, so that a mistake in it is an error here. `label`: see look_at_data().
expected<data_job> job_of_data(const std::string& path, const std::string& label, const std::string& name, const tables& all);

// --- what a file or folder of a user's data is: the source that reads it, and the options of that
// source
//   FOLDER      images in class folders; IDX files of MNIST's names; .npy files of NumPy
//   FILE.csv    (.tsv) a table: one column is the label or the target; others that are no numbers
//               are ignored
//   FILE.npz    arrays of NumPy
//   FILE.txt    a text for a character model
// Only a part of large files is looked at; opening the source reads all.
struct looked_at {
  std::string source;             // "csv"
  options values;                 // of the source; those that are not here keep their defaults
  std::vector<std::string> seen;  // sentences for people
};

// `label`: the column of a table to predict; empty: one of a usual name, else the last.
expected<looked_at> look_at_data(const std::string& path, const std::string& label);

// Texts of files in configs/jobs, by name without extension. They are part of the program.
const std::map<std::string, std::string>& job_examples();

}  // namespace troupe

// --- the readers, one for each kind of data, and what they share: for data_look*.cpp only
namespace troupe::data_look {

// Rows of a table, or labels of an array, that are looked at.
inline constexpr std::size_t most_records = 20000;
// Different values of a label that names classes: numbers that may be values too, and others.
inline constexpr std::size_t most_classes_of_numbers = 20, most_named_classes = 1000;
inline constexpr double test_share = 0.2;

std::string lower(std::string s);
std::string counted(std::size_t n, const char* what);  // "20,000 rows"

// Each: the source for the file or folder `path`, and its options. Errors name the file.
expected<looked_at> look_at_table(const std::string& path, const std::string& label);
expected<looked_at> look_at_arrays(const std::string& path);  // an .npz file, or a folder of .npy files
expected<looked_at> look_at_images(const std::string& path);

}  // namespace troupe::data_look
