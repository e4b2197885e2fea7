#include "runtime/node/config/data_folders.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "runtime/base/wording.hpp"
#include "runtime/record/job_owner.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr int max_entries = 100'000'000;

// The absolute path with all links resolved; parts that do not exist are kept by name. Empty if the
// path cannot be resolved.
fs::path resolved(const std::string& path) {
  std::error_code ec;
  if (path.find('\0') != std::string::npos) return {};
  const auto whole = fs::absolute(path, ec);
  if (ec) return {};
  auto p = fs::weakly_canonical(whole, ec);
  if (ec) return {};
  return p.has_filename() ? p : p.parent_path();  // "sets/" that does not exist
}

class fence {
 public:
  explicit fence(const std::vector<std::string>& folders, const std::vector<std::string>& withheld = {}, bool of_data = false)
      : folders_(all_resolved(folders)), withheld_(all_resolved(withheld)), of_data_(of_data) {}

  bool holds(const source_file& f) {
    const auto p = resolved(f.path);
    return within(p) && (!f.folder || links_stay(p));
  }

 private:
  static std::vector<fs::path> all_resolved(const std::vector<std::string>& folders) {
    std::vector<fs::path> all;
    for (const auto& f : folders)
      if (auto p = resolved(f); !p.empty()) all.push_back(std::move(p));
    return all;
  }
  static bool below(const std::vector<fs::path>& folders, const fs::path& p) {
    return std::any_of(folders.begin(), folders.end(),
                       [&](const fs::path& f) { return std::mismatch(f.begin(), f.end(), p.begin(), p.end()).first == f.end(); });
  }
  bool within(const fs::path& p) const {
    return !p.empty() && below(folders_, p) && !below(withheld_, p) && !(of_data_ && is_in_owned_folder(p));
  }

  // Returns true if all links below a folder lead inside. Links to folders are followed.
  bool links_stay(const fs::path& folder) {
    if (!walked_.insert(folder).second) return true;
    std::error_code ec;
    for (fs::recursive_directory_iterator i(folder, ec), end; !ec && i != end; i.increment(ec)) {
      std::error_code odd;
      if (++entries_ > max_entries) return false;
      if (!i->is_symlink(odd)) continue;
      const auto p = resolved(i->path().string());
      if (!within(p) || (fs::is_directory(p, odd) && !links_stay(p))) return false;
    }
    return true;
  }

  std::vector<fs::path> folders_, withheld_;
  bool of_data_;
  std::set<fs::path> walked_;
  int entries_ = 0;
};

// For a source that does not list its files: any text may be a path, except choices from a list.
std::vector<source_file> every_text(const options& o, const option_specs& specs) {
  std::vector<source_file> list;
  const auto add = [&](const std::string& key, const std::string& text) {
    std::error_code ec;
    if (text.find('/') != std::string::npos || fs::exists(text, ec)) list.push_back({key, text, fs::is_directory(text, ec)});
  };
  for (const auto& s : specs) {
    const auto at = o.values.find(s.name);
    if (at == o.values.end() || !s.choices.empty()) continue;
    if (const auto* text = std::get_if<std::string>(&at->second)) add(s.name, *text);
    if (const auto* texts = std::get_if<std::vector<std::string>>(&at->second))
      for (const auto& t : *texts) add(s.name, t);
  }
  return list;
}

}  // namespace

expected<void, diagnostic> check_folders(const data_spec& d, const source_type& type, const std::vector<std::string>& folders,
                                         const std::vector<std::string>& withheld) {
  const auto at = [&](const std::string& key) {
    const auto i = d.key_at.find(key);
    return i == d.key_at.end() ? d.at : i->second;
  };
  try {
    fence allowed(folders, withheld, true);
    const auto within = [&](const std::vector<source_file>& files) -> expected<void, diagnostic> {
      for (const auto& f : files)
        if (!f.path.empty() && !allowed.holds(f))
          return unexpected(
              diagnostic{at(f.key), "[data]: " + in_quotes(f.key) +
                                        " is outside the allowed folders: this node reads data only under the folders of its "
                                        "cluster file (" +
                                        (folders.empty() ? "none" : joined(folders)) + ")"});
      return {};
    };
    const auto named = within(type.files ? type.files(d.values) : every_text(d.values, type.specs));
    return named && type.listed ? within(type.listed(d.values)) : named;
  } catch (const option_error& e) {
    return unexpected(diagnostic{at(e.key), "[data]: " + std::string(e.what())});
  }
}

expected<void, diagnostic> check_folders(const checkpoint_spec& c, const std::vector<std::string>& folders) {
  if (c.dir.empty() || fence(folders).holds({"dir", c.dir, false})) return {};
  const auto i = c.key_at.find("dir");
  return unexpected(diagnostic{
      i == c.key_at.end() ? c.at : i->second,
      "[checkpoint]: 'dir' is outside the allowed folders: the coordinator's node writes checkpoints of jobs only under the "
      "folders of its cluster file (checkpoints: " +
          (folders.empty() ? "none" : joined(folders)) + ")"});
}

}  // namespace troupe
