// Whole files, durably. Errors are messages that do not name the file; nothing throws but for lack
// of memory.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

struct file_bytes {
  std::shared_ptr<const void> data;  // 64-byte aligned
  std::size_t bytes = 0;
};

struct file_part {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

// A regular file as it is now.
std::variant<file_bytes, std::string> read_file(const std::string& path);

// Replaces `path` by the parts in order, or leaves it as it was: PATH.tmp is written, synced and
// renamed, then the folder is synced. Empty when all of that succeeded. After a crash PATH is the
// old or the new file, and PATH.tmp may be left behind. Only a regular file is replaced; where PATH
// is a symbolic link to one, that one (runtime/data/file_place.hpp). `before`: called before every
// write and sync.
using before_write = std::function<void()>;
std::string write_file_atomically(const std::string& path, const std::vector<file_part>& parts, const before_write& before = {});

// Lets go of what the system holds of a synced file in memory, so that who reads it next reads what
// is on the disk. A wish: a file system in memory has nothing else, one over a network may have its
// server's memory between.
void forget_cached(const std::string& path);

constexpr const char* temporary_suffix = ".tmp";

}  // namespace troupe
