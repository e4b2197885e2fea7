// Reads and writes whole files, durably. Errors are messages without the file's name. The only
// exception is std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe {

struct file_bytes {
  std::shared_ptr<const void> data;  // 64-byte aligned
  std::size_t bytes = 0;
  std::size_t of_file = 0;  // bytes of the whole file
};

struct file_part {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

// Reads a regular file, or its first `most` bytes.
expected<file_bytes> read_file(const std::string& path, std::size_t most = SIZE_MAX);

// Replaces `path` by the parts in order, or leaves it unchanged: writes and syncs PATH.tmp, renames
// it, then syncs the folder. Empty on success. After a crash PATH is the old or the new file, and
// PATH.tmp may remain. Only a regular file is replaced; if PATH is a symbolic link to one, its
// target is (runtime/data/file_place.hpp). `before` is called before every write and sync.
using before_write = std::function<void()>;
expected<void> write_file_atomically(const std::string& path, const std::vector<file_part>& parts, const before_write& before = {});

// Drops a synced file from the page cache, so that the next reader gets the data on the disk. Best
// effort: a file system in memory has no disk, and a network file system may answer from its
// server's memory.
void forget_cached(const std::string& path);

constexpr const char* temporary_suffix = ".tmp";

}  // namespace troupe
