#include "runtime/record/job_owner.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <system_error>

#include "runtime/record/file_io.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_owner = 64;

bool is_owner(const std::string& name) {
  return !name.empty() && name.size() <= longest_owner &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
}

}  // namespace

std::string owner_of_folder(const fs::path& folder) {
  std::error_code ec;
  const auto file = folder / job_owner_file;
  if (!fs::is_regular_file(fs::symlink_status(file, ec))) return {};
  std::ifstream in(file, std::ios::binary);
  std::string text(longest_owner + 2, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.ends_with('\n')) text.pop_back();
  return is_owner(text) ? text : std::string();
}

expected<void, record_error> set_owner(const fs::path& folder, const std::string& owner) {
  if (owner.empty()) return {};
  const auto line = owner + "\n";
  const auto file = (folder / job_owner_file).string();
  if (auto ok = write_file_atomically(file, {{line.data(), line.size()}}); !ok)
    return unexpected(record_error{file, {}, ok.error().text});
  return {};
}

expected<void, record_error> claim_folder(const fs::path& folder, const std::string& owner) {
  const auto wrong = [&](const std::string& why) { return unexpected(record_error{folder.string(), {}, why}); };
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (ec) return wrong("cannot create: " + ec.message());
  const auto now = owner_of_folder(folder);
  if (now == owner) return {};
  if (!now.empty()) return wrong("the folder belongs to " + now + ", and the job to " + owner + "; remove or rename the folder");
  const bool used = !fs::is_empty(folder, ec);
  if (ec) return wrong(ec.message());
  if (used) return wrong("the folder has files and no owner; to give it to " + owner + ", write this name to its file job-owner");
  return set_owner(folder, owner);
}

bool is_in_owned_folder(const fs::path& path) {
  for (auto at = path; at.has_relative_path(); at = at.parent_path()) {
    std::error_code ec;
    if (fs::exists(fs::symlink_status(at / job_owner_file, ec))) return true;
  }
  return false;
}

std::vector<std::size_t> surplus(const std::vector<std::string>& owners, std::size_t keep) {
  if (owners.size() <= keep) return {};
  std::map<std::string, std::vector<std::size_t>> of;  // the oldest last
  for (std::size_t i = 0; i < owners.size(); ++i) of[owners[i]].push_back(i);
  std::vector<std::size_t> gone;
  while (owners.size() - gone.size() > keep) {
    const auto most = std::max_element(of.begin(), of.end(), [](const auto& a, const auto& b) {
      const auto key = [](const auto& x) { return std::pair(x.second.size(), x.second.empty() ? 0 : x.second.back()); };
      return key(a) < key(b);
    });
    gone.push_back(most->second.back());
    most->second.pop_back();
  }
  std::sort(gone.begin(), gone.end());
  return gone;
}

}  // namespace troupe
