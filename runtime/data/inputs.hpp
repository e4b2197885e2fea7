// Files that a user gives to a trained net, as sources without labels: all examples are in the test
// split. Numbers of text, integers and bytes are what the files of the job's own source hold, and
// are scaled as those are. Floats (.npy) are values as the job's source delivers them.
//
//   .npy   [n, example...]; extents of 1 may be added or left out. Read when it is used.
//   CSV    an example a record (csv_rows.hpp). Read when it is used.
//   IDX    unsigned bytes [n, example...], plain or gzip (idx_file.hpp). Kept in memory.
//
// Errors: open functions return a message that begins with the file's name; wrong sizes name both
// shapes. read() throws std::runtime_error with the file's name.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/data/source.hpp"

namespace troupe {

// What the job's source delivers.
struct input_format {
  shape example;
  bool ids = false;  // examples are ids (i32): numbers must be whole and not negative
  // value = number * scale - mean; one pair for all, or one for each step of the outermost axes
  // whose extents multiply to the number of pairs. Empty: not scaled.
  std::vector<double> scale, mean;
  bool scales_floats = false;                // also floats of .npy files are scaled
  channel_order order = channel_order::rgb;  // of the planes of a picture
};
// `values`: the options of the job's source.
input_format input_format_of(const source& s, const std::string& source_name, const options& values);

// How a CSV file is read.
struct csv_input {
  std::optional<char> separator = {};  // nullopt: the one of ,;TAB that is most frequent in the first line
  bool header = true;                  // there may be a header line: there is one if a field of the first line is no number
  // Columns of label or targets, to skip if they are there: by name, or by number if there are so
  // many columns too many.
  std::vector<std::string> labels = {};
  std::vector<std::string> ignore = {};  // columns to skip, by name or number, which must be there
  std::vector<std::string> absent = {};  // columns to skip if they are there, by name or number
  // Names of the columns of an example. If the header has one of them, it must have all, and they
  // are taken by name. Otherwise columns are taken in the order of the file.
  std::vector<std::string> inputs = {};
  std::vector<double> fill = {};  // for missing fields, before scaling; empty: they are an error
};
csv_input csv_input_of(const source& s);

using input_result = expected<std::shared_ptr<const source>>;
input_result open_npy_input(const std::string& path, const input_format& f);
// The same for the bytes of such a file. `name`: for messages.
input_result npy_input_of(const std::string& name, std::shared_ptr<const random_bytes> bytes, const input_format& f);
input_result open_csv_input(const std::string& path, const input_format& f, const csv_input& c);
input_result open_idx_input(const std::string& path, const input_format& f);

enum class input_kind : std::uint8_t { image, npy, csv, idx, unknown };
// By the first bytes; a text is CSV if its name ends in .csv, .tsv or .txt.
expected<input_kind> input_kind_of(const std::string& path);

}  // namespace troupe
