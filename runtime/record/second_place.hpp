// A second place for files that cannot be written where they were asked for: a full disk, a folder
// that is gone. What took hours to train must not be lost to that.
//
// The second place is a folder that its owner alone may read, troupe-XXXXXX in $TMPDIR (/tmp where
// that is not set), made when it is first needed, so that no other user can have prepared it. A job
// has one folder: a later file of the same name replaces the earlier one. Troupe never removes it.
// Errors: a file that had to go there is still trouble, and says where it is.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/record/safetensors.hpp"

namespace troupe {

// Writes one whole file, or leaves none.
using file_writer = std::function<std::optional<record_error>(const std::string& path)>;

struct kept_file {
  std::string path;                     // where it is; empty: nowhere
  std::optional<record_error> trouble;  // it is not where it was asked for: why, and where else it is
};

// Path of the folder of one job; empty: not created yet.
using second_place = std::string;

// At `file`, else in the second place under the same name.
kept_file write_or_elsewhere(second_place& place, const std::string& file, const file_writer& write);
// `why` it could not be written where it was asked for: in the second place, as `name`.
kept_file write_elsewhere(second_place& place, record_error why, const std::string& name, const file_writer& write);

}  // namespace troupe
