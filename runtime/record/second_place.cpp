#include "runtime/record/second_place.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "runtime/record/paced.hpp"

namespace troupe {
namespace {

// Returns true if `folder` exists, is a folder, and only this user may use it. Other users may be
// able to write to its parent.
bool is_ours_alone(const std::string& folder) {
  struct stat s {};
  return !folder.empty() && ::lstat(folder.c_str(), &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == ::geteuid() &&
         (s.st_mode & 077) == 0;
}

}  // namespace

kept_file write_elsewhere(second_place& place, record_error why, const std::string& name, const file_writer& write) {
  const auto fresh = !is_ours_alone(place);
  if (fresh) {
    const char* set = std::getenv("TMPDIR");
    const std::string parent = set && *set != '\0' ? set : "/tmp";
    place = parent + "/troupe-XXXXXX";
    if (!::mkdtemp(place.data())) {
      place.clear();
      why.message += "; nor in " + parent + ": cannot create a folder: " + std::strerror(errno);
      return {{}, std::move(why)};
    }
  }
  auto path = place + "/" + name;
  if (const auto written = write(path); !written) {
    why.message += "; nor in the second place: " + written.error().to_string();
    if (fresh) ::rmdir(std::exchange(place, {}).c_str());
    return {{}, std::move(why)};
  }
  why.message += "; it is in " + path + " instead";
  return {std::move(path), std::move(why)};
}

kept_file write_or_elsewhere(second_place& place, const std::string& file, const file_writer& write) {
  auto written = write(file);
  if (written) return {file, {}};
  auto why = std::move(written).error();
  why.file = file;  // not the writer's temporary name
  return write_elsewhere(place, std::move(why), std::filesystem::path(file).filename().string(), write);
}

kept_file save_checkpoint_or_elsewhere(second_place& place, const std::string& folder, const std::string& name, const checkpoint& c,
                                       std::size_t keep, const before_write& before) {
  auto saved = save_checkpoint(folder, c, keep, before);
  if (saved) {
    const auto files = checkpoint_files(folder);
    return {files.empty() ? std::string() : files.front(), {}};
  }
  auto kept = write_elsewhere(place, std::move(saved).error(), name,
                              [&](const std::string& path) { return write_checkpoint(path, c, before); });
  if (kept.path.empty()) return kept;
  if (auto link = link_checkpoint(folder, kept.path, c.step)) kept.path = *std::move(link);
  return kept;
}

}  // namespace troupe
