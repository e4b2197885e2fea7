#include "actors/control/executor/job_folders.hpp"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

namespace troupe::control {
namespace fs = std::filesystem;

std::size_t remove_old_job_folders(const fs::path& state, const fs::path& in_use, std::size_t keep) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code ec;
  for (fs::directory_iterator i(state, ec), end; !ec && i != end; i.increment(ec)) {
    std::error_code odd;
    if (!is_job_folder_name(i->path().filename().string()) || fs::is_symlink(i->symlink_status(odd)) || !i->is_directory(odd))
      continue;
    const auto changed = i->last_write_time(odd);
    if (!odd) found.emplace_back(changed, i->path());
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a > b; });
  std::size_t removed = 0;
  for (std::size_t n = keep; n < found.size(); ++n) {
    const auto& folder = found[n].second;
    if (folder.filename() == in_use.filename()) continue;
    std::error_code stays;
    fs::remove_all(folder, stays);
    removed += stays ? 0 : 1;
  }
  return removed;
}

}  // namespace troupe::control
