#include "runtime/node/executor/job_folders.hpp"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/node/executor/job_runs.hpp"
#include "runtime/record/job_owner.hpp"

namespace troupe::control {
namespace fs = std::filesystem;

void give_known_owners(const fs::path& state, const journal_content& found) {
  const auto give = [](const fs::path& folder, const std::string& owner) {
    if (!folder.empty() && owner_of_folder(folder).empty()) static_cast<void>(set_owner(folder, owner));
  };
  // The folder of a file that the journal names, if both exist.
  const auto folder_of = [](const std::string& file) {
    std::error_code ec;
    return !file.empty() && fs::is_regular_file(file, ec) ? fs::path(file).parent_path() : fs::path();
  };
  for (const auto& j : found.finished) {
    give(folder_of(j.weights), j.owner);
    give(folder_of_run(state / "runs", j.number), j.owner);
  }
  for (const auto& j : found.jobs) {
    give(folder_of(j.kept), j.owner);
    if (!j.kept.empty() || j.begun > 0) give(folder_of_run(state / "runs", j.number), j.owner);
  }
}

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
  std::vector<std::string> owners;
  for (const auto& [changed, folder] : found) owners.push_back(owner_of_folder(folder));
  std::size_t removed = 0;
  for (const auto n : surplus(owners, keep)) {
    const auto& folder = found[n].second;
    if (folder.filename() == in_use.filename()) continue;
    std::error_code stays;
    fs::remove_all(folder, stays);
    removed += stays ? 0 : 1;
  }
  return removed;
}

}  // namespace troupe::control
