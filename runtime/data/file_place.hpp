// Where a file with a name given by a user may be written. Files are written under a temporary name
// and renamed, which replaces any file of that name: only a regular file may be replaced. A
// symbolic link to a regular file is kept, and its target is replaced.
// Errors: values, without the file's name.  Threads: functions without state.
#pragma once

#include <string>

#include "runtime/base/result.hpp"

namespace troupe {

// Where to write: the path itself, or the target of a link. An error, "it is a device, and only
// regular files are written", if it must not be written.
expected<std::string> place_to_write(const std::string& path);

// Opens `path` for writing, as a new or truncated regular file. Anything else at the path is
// unchanged, and it does not wait for a FIFO's reader. Returns the descriptor, which the caller
// closes.
expected<int> open_to_write(const std::string& path);

}  // namespace troupe
