// Files that are written whole or not at all, and folders that are closed to other users. Errors:
// values ("exists", "directory_open", "cannot_write").
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe {

struct planned_file {
  std::filesystem::path path;
  std::string text;
  mode_t mode;
};

// Makes `dir` with mode 0700. An existing one must be closed to others, or empty.
expected<void, coded_error> prepare_closed_folder(const std::filesystem::path& dir);

// Writes files of `dir` and of folders in it; makes these folders. Without `overwrite`, changes
// nothing if one of the files exists, in its folder or in `dir` itself.
expected<void, coded_error> write_planned_files(const std::vector<planned_file>& files, const std::filesystem::path& dir,
                                                bool overwrite);

}  // namespace troupe
