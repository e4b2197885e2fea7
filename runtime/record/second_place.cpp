#include "runtime/record/second_place.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace troupe {

kept_file write_elsewhere(record_error why, const std::string& name, const file_writer& write) {
  const char* set = std::getenv("TMPDIR");
  const std::string parent = set && *set != '\0' ? set : "/tmp";
  auto folder = parent + "/troupe-XXXXXX";
  if (!::mkdtemp(folder.data())) {
    why.message += "; nor in " + parent + ": cannot create a folder: " + std::strerror(errno);
    return {{}, std::move(why)};
  }
  auto path = folder + "/" + name;
  if (const auto again = write(path)) {
    ::rmdir(folder.c_str());
    why.message += "; nor in the second place: " + again->to_string();
    return {{}, std::move(why)};
  }
  why.message += "; it is in " + path + " instead";
  return {std::move(path), std::move(why)};
}

kept_file write_or_elsewhere(const std::string& file, const file_writer& write) {
  auto why = write(file);
  if (!why) return {file, {}};
  why->file = file;  // not the name that a writer gives it until it is whole
  return write_elsewhere(std::move(*why), std::filesystem::path(file).filename().string(), write);
}

}  // namespace troupe
