// Tables as text (RFC 4180): one record a row, fields between separators. A field may be in double
// quotes, with `""` for a quote; it may then contain separators and line breaks. Blanks around a
// field are dropped. Records end in LF or CR LF. Empty lines and a UTF-8 byte order mark at the
// beginning are skipped.
//
// Fields are finite decimal numbers. One column may have names of classes instead, and columns may
// be ignored. Fields may be missing: empty, or one of is_missing_csv_field().
// Errors: values with the line of the file (not of the record) and the column. They show names of
// columns, and no other text of the file. Any bytes give a table or an error.
// Memory: the number of values is checked against a limit before they are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe {

struct csv_format {
  char separator = ',';
  bool header = true;                    // the first record names the columns
  std::vector<std::string> names = {};   // of all columns, without a header; empty: their numbers are their names
  std::vector<std::string> ignore = {};  // columns that are not read, by name or number (csv_column()): they may contain anything
  std::vector<std::size_t> skip = {};    // further columns that are not read, by index
  // Column of the labels, by name or number among the columns that are read; empty: all columns
  // have numbers. Either all labels are numbers or none is.
  std::string label = {};
  // Names that the labels may have, in their order; empty: those of the file, sorted. They may
  // contain words of is_missing_csv_field().
  std::vector<std::string> class_names = {};
  bool missing = false;  // a missing field is a NaN; false: an error
  std::size_t max_values = SIZE_MAX;
};

struct csv_table {
  std::vector<std::string> names;        // of the columns that are read; without a header their numbers
  std::vector<double> values;            // [rows][names]; NaN: missing, or a class name
  std::vector<std::uint32_t> lines;      // line number of the beginning of each row, from 1
  std::size_t label = 0;                 // index in names, if csv_format::label is not empty
  std::vector<std::int32_t> classes;     // of each row if labels are names: index in class_names, -1: missing
  std::vector<std::string> class_names;  // empty: labels are numbers
  std::size_t rows() const { return lines.size(); }
};

struct csv_error {
  std::uint64_t line = 0;  // 0: the whole file
  std::string text;
  bool full = false;  // the file has more values than csv_format::max_values
  enum class part : std::uint8_t { file, ignore, label, missing } of = part::file;  // the member of csv_format that does not fit
};

// The first record that is not empty.
struct csv_first_line {
  std::vector<std::string> fields;  // of all columns, also those that are ignored; without surrounding blanks and quotes
  std::size_t bytes = 0;            // of the file up to the end of this record
  std::uint64_t lines = 0;          // of the file up to there
};
expected<csv_first_line, csv_error> parse_csv_first_line(std::span<const std::uint8_t> file, char separator);

// The bytes of the complete records at the beginning of `text`, which begins with a record. The end
// of `text` ends no record.
std::size_t complete_csv_records(std::span<const std::uint8_t> text, char separator);

// Whether a field is a number as parse_csv() reads it, or one that is not finite (an error there).
bool is_csv_number(std::string_view field);
// The finite number that a field is.
std::optional<double> csv_number(std::string_view field);
// Whether a field stands for a value that is not known: empty, or NA, N/A, NaN, null, None or ?
// (letters in any case).
bool is_missing_csv_field(std::string_view field);

// The one of , ; and TAB that is most frequent in the first line of a table that begins with
// `text`.
char likely_csv_separator(std::string_view text);

// Index of the column that `word` names: by name, or by number from 0 (negative: from the end). The
// error lists the names.
expected<std::size_t> csv_column(const std::string& word, const std::vector<std::string>& names);

// The names for a message, at most 20 of them.
std::string csv_column_list(const std::vector<std::string>& names);

expected<csv_table, csv_error> parse_csv(std::span<const std::uint8_t> file, const csv_format& f);

}  // namespace troupe
