// Tables of numbers as text: one row per line, fields between separators, similar to RFC 4180. A
// field is a finite decimal number, optionally with blanks around it or in double quotes. Lines end
// in LF or CR LF. Empty lines and a UTF-8 byte order mark at the beginning are skipped. A quoted
// field ends on its line.
// Errors: values with the line number. Any bytes give a table or an error.
// Memory: the number of values is checked against a limit before they are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe {

struct csv_format {
  char separator = ',';
  bool header = true;                    // the first line names the columns
  std::vector<std::string> ignore = {};  // columns that are not read, by name or number (from 0): they may contain anything
  std::size_t max_values = SIZE_MAX;
};

struct csv_table {
  std::vector<std::string> names;    // of the columns that are read; without a header their numbers
  std::vector<double> values;        // [rows][names]
  std::vector<std::uint32_t> lines;  // line number of each row, from 1
  std::size_t rows() const { return lines.size(); }
};

struct csv_error {
  std::uint64_t line = 0;  // 0: the whole file
  std::string text;
  bool full = false;  // the file has more values than csv_format::max_values
};

// The first line that is not empty.
struct csv_first_line {
  std::vector<std::string> fields;  // of all columns, also those that are ignored; without surrounding blanks and quotes
  std::size_t bytes = 0;            // of the file up to the end of this line
  std::uint64_t line = 0;           // its number, from 1
};
expected<csv_first_line, csv_error> parse_csv_first_line(std::span<const std::uint8_t> file, char separator);

// Whether a field is a number as parse_csv() reads it.
bool is_csv_number(const std::string& field);

expected<csv_table, csv_error> parse_csv(std::span<const std::uint8_t> file, const csv_format& f);

}  // namespace troupe
