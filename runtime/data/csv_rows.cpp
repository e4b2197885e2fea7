#include "runtime/data/csv_rows.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {
namespace {

constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20, most_piece_bytes = std::uint64_t{64} << 20;

}  // namespace

csv_rows::csv_rows(std::string path, csv_columns c, std::shared_ptr<const random_bytes> file)
    : path_(std::move(path)), columns_(std::move(c)), file_(std::move(file)) {
  // Pieces are parsed without the header line; its names are for messages.
  format_.separator = columns_.separator;
  format_.header = false;
  format_.missing = columns_.missing;
  for (std::size_t k = 0; k < columns_.columns; ++k)
    if (!std::binary_search(columns_.keep.begin(), columns_.keep.end(), k)) format_.skip.push_back(k);
}

expected<std::shared_ptr<csv_rows>> csv_rows::open(const std::string& path, csv_columns c) {
  auto file = open_bytes(path);
  if (!file) return unexpected(file.error().in(path));
  std::shared_ptr<csv_rows> made(new csv_rows(path, std::move(c), *std::move(file)));
  if (const auto fine = made->find_pieces(); !fine) return unexpected(fine.error());
  return made;
}

// Reads the piece that begins at p.at: whole records of about piece_bytes. Sets p.bytes.
expected<void> csv_rows::take_piece(piece& p) {
  for (auto n = piece_bytes;; n *= 2) {
    n = std::min(n, file_->size() - p.at);
    text_.resize(n);
    if (const auto fine = file_->read(p.at, text_.data(), n); !fine) return unexpected(fine.error().in(path_));
    if (p.at + n == file_->size()) break;
    if (const auto complete = complete_csv_records(text_, columns_.separator); complete > 0) {
      text_.resize(complete);
      break;
    }
    if (n >= most_piece_bytes)
      return unexpected(error(path_ + ":" + std::to_string(p.line + 1) + ": more than 64 MiB without the end of a record"));
  }
  p.bytes = text_.size();
  return {};
}

// Parses text_, the bytes of `p`, to table_.
expected<void> csv_rows::parse(const piece& p) {
  const auto wrong = [&](std::uint64_t line, const std::string& text) {
    return unexpected(error(path_ + ":" + std::to_string(p.line + line) + ": " + text));
  };
  auto r = parse_csv(text_, format_);
  if (!r) {
    table_ = {};
    if (r.error().line == 0) return {};  // blank lines only
    return wrong(r.error().line, r.error().text);
  }
  table_ = *std::move(r);
  if (table_.names.size() != columns_.keep.size())
    return wrong(table_.lines.front(),
                 "the number of fields is not " + std::to_string(columns_.columns) + ", as in the first line");
  return {};
}

expected<void> csv_rows::find_pieces() {
  piece p;
  if (columns_.header) {
    if (auto fine = take_piece(p); !fine) return fine;
    auto first = parse_csv_first_line(text_, columns_.separator);
    if (!first) return unexpected(error(path_ + ": " + first.error().text));
    p.at = first->bytes;
    p.line = first->lines;
    format_.names = std::move(first->fields);
  }
  while (p.at < file_->size()) {
    if (auto fine = take_piece(p); !fine) return fine;
    if (auto fine = parse(p); !fine) return fine;
    p.first = rows_;
    if (!table_.lines.empty()) pieces_.push_back(p);
    rows_ += static_cast<std::int64_t>(table_.rows());
    p.line += static_cast<std::uint64_t>(std::count(text_.begin(), text_.end(), std::uint8_t{'\n'}));
    p.at += p.bytes;
  }
  here_ = pieces_.size();
  if (rows_ > 0) return {};
  return unexpected(error(path_ + ": no rows"));
}

const double* csv_rows::row(std::int64_t i) {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), i, [](std::int64_t k, const piece& p) { return k < p.first; });
  const auto index = static_cast<std::size_t>(after - pieces_.begin()) - 1;
  const auto& p = pieces_[index];
  if (index != here_) {
    here_ = pieces_.size();
    text_.resize(p.bytes);
    if (const auto fine = file_->read(p.at, text_.data(), p.bytes); !fine) throw std::runtime_error(fine.error().in(path_).text);
    if (const auto fine = parse(p); !fine) throw std::runtime_error(fine.error().text);
    const auto rows = (index + 1 < pieces_.size() ? pieces_[index + 1].first : rows_) - p.first;
    if (static_cast<std::int64_t>(table_.rows()) != rows) throw std::runtime_error(path_ + ": the file has changed");
    here_ = index;
  }
  return table_.values.data() + static_cast<std::size_t>(i - p.first) * table_.names.size();
}

}  // namespace troupe
