// The records of an LMDB database (Lightning Memory-Mapped Database), in the order of their keys,
// as Caffe's convert_imageset writes them: one database, opened for reading only, without a lock
// file, so that the folder need not be writable. No process may write to it meanwhile.
// LMDB trusts its file: a damaged tree of keys can end the process. Records themselves
// are checked by their readers.
// Errors: values that name the folder. Threads: an opened database is read-only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe {

class lmdb_records {
 public:
  // `path`: the folder with data.mdb, or the file itself. At least one record.
  static expected<std::shared_ptr<const lmdb_records>> open(const std::string& path);
  ~lmdb_records();

  const std::string& path() const { return path_; }
  std::int64_t size() const { return static_cast<std::int64_t>(records_.size()); }
  std::span<const std::uint8_t> record(std::int64_t i) const { return records_[static_cast<std::size_t>(i)]; }

 private:
  struct handles;
  explicit lmdb_records(std::string path);

  std::string path_;
  std::unique_ptr<handles> handles_;  // its read transaction keeps the mapped records valid
  std::vector<std::span<const std::uint8_t>> records_;
};

}  // namespace troupe
