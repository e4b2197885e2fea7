// Tables of numbers as text: one row a line, fields between separators, in the spirit of RFC 4180.
// A field is a finite decimal number, with blanks around it or in double quotes as it likes; lines
// end in LF or CR LF; empty lines are passed over; a UTF-8 byte order mark at the beginning is.
// What a quote encloses ends on its line.
// Errors: values with the line they are about; any bytes are answered by a table or by a message.
// Memory: values are bounded before they are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

struct csv_format {
  char separator = ',';
  bool header = true;                    // the first line names the columns
  std::vector<std::string> ignore = {};  // columns that are not read, by name or number (from 0): they may hold anything
  std::size_t max_values = SIZE_MAX;
};

struct csv_table {
  std::vector<std::string> names;    // of the columns that are kept; their numbers without a header
  std::vector<double> values;        // [rows][names]
  std::vector<std::uint32_t> lines;  // of each row, from 1
  std::size_t rows() const { return lines.size(); }
};

struct csv_error {
  std::uint64_t line = 0;  // 0: the whole file
  std::string text;
  bool full = false;  // the file has more values than csv_format::most_values
};

std::variant<csv_table, csv_error> parse_csv(std::span<const std::uint8_t> file, const csv_format& f);

}  // namespace troupe
