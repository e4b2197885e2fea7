// Where a file that somebody named may be written. Files are written beside their place and renamed
// onto it, so whatever has the name is replaced: that may only be a regular file, or nothing. A
// symbolic link to a regular file stays, and the file that it leads to is replaced.
// Errors: values, without the file's name.  Threads: functions without state.
#pragma once

#include <string>

namespace troupe {

struct file_place {
  std::string path;   // where to write: the name itself, or where a link leads
  std::string wrong;  // why nothing is written there: "it is a device, and only regular files are written"; empty: nothing known
};
file_place place_to_write(const std::string& path);

// Opens `path` for writing, as a fresh or emptied regular file: what else has the name is left
// alone, and a FIFO is not waited for. Less than 0: `wrong` says why.
int open_to_write(const std::string& path, std::string& wrong);

}  // namespace troupe
