// The rows of a CSV file of any size (csv_file.hpp). open() parses the file once, piece by piece,
// and so finds every mistake before a row is used; read() parses the piece of a row again. The
// memory is that of one piece, about 1 MiB of records, and 32 bytes for each piece.
// Errors: open() returns a message that begins with the path and the line; read() throws
// std::runtime_error with the path if the file has changed.
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/data/csv_file.hpp"
#include "runtime/data/file_bytes.hpp"

namespace troupe {

struct csv_columns {
  char separator = ',';
  bool header = true;             // the first line names the columns
  std::vector<std::size_t> keep;  // columns that are read, in ascending order
  std::size_t columns = 0;        // of the file
  bool missing = false;           // as csv_format::missing
};

class csv_rows {
 public:
  static expected<std::shared_ptr<csv_rows>> open(const std::string& path, csv_columns c);

  std::int64_t size() const { return rows_; }
  // The values of row i, from the columns that are read; NaN: missing.
  const double* row(std::int64_t i);

 private:
  struct piece {
    std::uint64_t at = 0, bytes = 0, line = 0;  // line: number of lines before it
    std::int64_t first = 0;                     // row
  };
  csv_rows(std::string path, csv_columns c, std::shared_ptr<const random_bytes> file);
  expected<void> find_pieces();
  expected<void> parse(const piece& p);
  expected<void> take_piece(piece& p);

  std::string path_;
  csv_columns columns_;
  csv_format format_;
  std::shared_ptr<const random_bytes> file_;
  std::vector<piece> pieces_;
  std::int64_t rows_ = 0;
  std::vector<std::uint8_t> text_;  // of the piece at hand
  csv_table table_;                 // its rows
  std::size_t here_ = 0;            // index of the piece at hand, or the number of pieces
};

}  // namespace troupe
