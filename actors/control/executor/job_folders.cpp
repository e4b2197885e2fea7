#include "actors/control/executor/job_folders.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "actors/control/admission.hpp"
#include "actors/control/executor/job_runs.hpp"
#include "runtime/record/checkpoint_home.hpp"
#include "runtime/record/job_owner.hpp"

namespace troupe::control {
namespace {

namespace fs = std::filesystem;

bool digits(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string safe_job_name(const std::string& name) { return path_word(name); }

std::string job_folder_name(std::uint32_t job, const std::string& name) {
  return "job-" + std::to_string(number_of(job)) + "-" + safe_job_name(name) + "-" + std::to_string(job >> 16);
}

bool is_job_folder_name(const std::string& name) {
  if (!name.starts_with("job-")) return false;
  const auto first = name.find('-', 4), last = name.rfind('-');
  return first != std::string::npos && last > first && digits(name.substr(4, first - 4)) && digits(name.substr(last + 1));
}

std::string job_name_of_folder(const std::string& name) {
  if (!is_job_folder_name(name)) return {};
  const auto first = name.find('-', 4), last = name.rfind('-');
  return name.substr(first + 1, last - first - 1);
}

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
