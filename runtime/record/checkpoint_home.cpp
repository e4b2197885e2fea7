#include "runtime/record/checkpoint_home.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace troupe {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string path_word(const std::string& name) {
  std::string out;
  for (char c : name.substr(0, 48)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    out += plain ? c : '_';
  }
  return out;
}

std::string checkpoint_home(const std::string& dir, const std::string& job) {
  return (fs::path(dir) / (job.empty() ? "job" : path_word(job))).string();
}

expected<std::string, record_error> new_run_folder(const std::string& home) {
  std::error_code ec;
  fs::create_directories(home, ec);
  if (ec) return unexpected(record_error{home, {}, "cannot create: " + ec.message()});
  auto folder = home + "/run-XXXXXX";
  if (!::mkdtemp(folder.data()))
    return unexpected(record_error{home, {}, std::string("cannot create a folder in it: ") + std::strerror(errno)});
  return folder;
}

expected<std::string, record_error> folder_for_checkpoints(const std::string& dir, const std::string& job) {
  if (dir.empty()) return std::string();
  return new_run_folder(checkpoint_home(dir, job));
}

// Creates a folder to find out: a file system may be read-only whatever the modes say.
expected<void> check_home(const std::string& dir, const std::string& job) {
  const auto made = new_run_folder(checkpoint_home(dir, job));
  if (!made) return unexpected(error(made.error().to_string()));
  ::rmdir(made->c_str());
  return {};
}

std::vector<std::string> runs_of(const std::string& home) {
  std::vector<std::string> list;
  std::error_code ec;
  for (fs::directory_iterator i(home, ec), end; !ec && i != end; i.increment(ec)) {
    std::error_code odd;
    if (i->is_directory(odd) && !odd) list.push_back(i->path().string());
  }
  std::sort(list.begin(), list.end());
  return list;
}

found_checkpoint newest_in(const std::vector<std::string>& folders) {
  struct candidate {
    fs::file_time_type written;
    std::string file;
  };
  std::vector<candidate> all;
  for (const auto& folder : folders)
    for (auto& file : checkpoint_files(folder)) {
      std::error_code gone;
      const auto written = fs::last_write_time(file, gone);
      if (!gone) all.push_back({written, std::move(file)});
    }
  // Files with equal times are ordered by name, which within one run is the order of writing.
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return std::pair(a.written, a.file) > std::pair(b.written, b.file); });
  found_checkpoint out;
  for (const auto& c : all) {
    auto r = load_checkpoint(c.file);
    if (r) {
      out.newest = std::move(*r);
      out.file = c.file;
      break;
    }
    out.refused.push_back(std::move(r.error()));
  }
  return out;
}

}  // namespace troupe
