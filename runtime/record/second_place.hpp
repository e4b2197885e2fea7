// A second place for files that cannot be written to the requested path, e.g. because the disk is
// full or the folder is gone, so that hours of training are not lost.
//
// The second place is a folder that only its owner may read, troupe-XXXXXX in $TMPDIR (/tmp if that
// is not set). It is created when it is first needed, so that no other user can have prepared it. A
// job has one folder; a later file of the same name replaces the earlier one. Troupe never removes
// it.
// Errors: a file that had to be written there still has an error, which names its path.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/record/checkpoint.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {

// Writes one whole file, or none.
using file_writer = std::function<expected<void, record_error>(const std::string& path)>;

struct kept_file {
  std::string path;                     // where it is; empty: it was not written
  std::optional<record_error> trouble;  // set if it is not at the requested path: why, and its path
};

// Path of the folder of one job; empty: not created yet.
using second_place = std::string;

// Writes to `file`; if that fails, to the second place under the same name.
kept_file write_or_elsewhere(second_place& place, const std::string& file, const file_writer& write);
// Saves as save_checkpoint() does; if that fails, in the second place as `name`, and puts a link to
// that file into the folder, so that a search of the folder finds it. `path`: the link, if the
// folder takes one.
kept_file save_checkpoint_or_elsewhere(second_place& place, const std::string& folder, const std::string& name, const checkpoint& c,
                                       std::size_t keep, const before_write& before = {});
// Writes to the second place, as `name`. `why`: the error at the requested path.
kept_file write_elsewhere(second_place& place, record_error why, const std::string& name, const file_writer& write);

}  // namespace troupe
