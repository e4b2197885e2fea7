// The records of an LMDB database (Lightning Memory-Mapped Database), in the order of its keys, as
// Caffe's convert_imageset writes them: the unnamed database of a file of version 1 (LMDB 0.9) of a
// 64-bit little-endian machine. The file is read by offset, never mapped, and without a lock file,
// so that the folder need not be writable.
//
// The file is not trusted. Every page, node and length is checked, every page is read at most once
// when the database is opened, and an opened database keeps 16 bytes for each record. A file that
// is damaged, cut short or modified meanwhile gives an error. Records themselves are checked by
// their readers.
// Errors: values that name the folder. Threads: an opened database is read-only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/data/file_bytes.hpp"

namespace troupe {

class lmdb_records {
 public:
  // `path`: the folder with data.mdb, or the file itself. At least one record.
  static expected<std::shared_ptr<const lmdb_records>> open(const std::string& path);
  // `path`: for messages.
  static expected<std::shared_ptr<const lmdb_records>> in_bytes(std::shared_ptr<const random_bytes> file, const std::string& path);

  const std::string& path() const { return path_; }
  std::int64_t size() const { return static_cast<std::int64_t>(places_.size()); }
  // Reads record i. The error names neither folder nor record.
  expected<void> read(std::int64_t i, std::vector<std::uint8_t>& out) const;

  // Where a record is in the file.
  struct place {
    std::uint64_t at = 0;  // of its first byte; of a record in pages of its own: of their header
    std::uint32_t bytes = 0;
    bool own_pages = false;
  };

 private:
  lmdb_records() = default;

  std::string path_;
  std::shared_ptr<const random_bytes> file_;
  std::uint64_t version_ = 0;
  std::uint32_t page_bytes_ = 0;
  std::vector<place> places_;
};

}  // namespace troupe
