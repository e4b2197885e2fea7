#include "actors/control/client/recorded_files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "runtime/base/write_whole.hpp"
#include "runtime/cluster/job_folder_names.hpp"
#include "runtime/data/file_place.hpp"
#include "runtime/node/post_mortem.hpp"
#include "runtime/record/checkpoint_home.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto piece_within = 10s;

control::look wanted(std::uint32_t job, const std::string& file, std::uint64_t offset) {
  control::look l;
  l.recording_of = job;
  l.file = file;
  l.offset = offset;
  return l;
}

std::vector<std::string> components(const std::string& name) {
  std::vector<std::string> parts{""};
  for (const char c : name)
    if (c == '/')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

bool is_recorded_name(const std::string& name, std::uint32_t job) {
  const auto parts = components(name);
  if (parts.size() != 4 || parts[1] != "recording" || !is_recording_name(parts[2])) return false;
  const auto job_name = control::job_name_of_folder(parts[0]);
  return control::is_job_folder_name(parts[0]) && parts[0].starts_with("job-" + std::to_string(job) + "-") &&
         job_name == path_word(job_name) &&
         std::find(std::begin(recording_files), std::end(recording_files), parts[3]) != std::end(recording_files);
}

bool is_recorded_text(const std::string& name) { return name.ends_with(".toml") || name.ends_with(".json"); }

unexpected<error> cannot_write(const fs::path& path) {
  return unexpected(error("cannot write " + path.string() + ": " + std::strerror(errno)));
}

// Creates the folders of `inside`, a relative path, below `base`. A link in place of a folder is an
// error: a folder that others may write to is no place for copies.
expected<void> make_folders(fs::path base, const fs::path& inside) {
  for (const auto& part : inside) {
    base /= part;
    struct stat st {};
    if (::mkdir(base.c_str(), 0700) != 0 && errno != EEXIST) return cannot_write(base);
    if (::lstat(base.c_str(), &st) != 0) return cannot_write(base);
    if (!S_ISDIR(st.st_mode)) return unexpected(error("cannot write " + base.string() + ": it is not a folder"));
  }
  return {};
}

// Copies one file; a file that grows meanwhile is copied as far as it was listed.
expected<void> copy_file(node_links& from, node_links::node& n, std::uint32_t job, const control::recorded_file& f,
                         const fs::path& to) {
  if (auto made = make_folders(to, fs::path(n.where.node) / fs::path(f.name).parent_path()); !made) return made;
  const auto file = to / n.where.node / f.name;
  const auto opened = open_to_write(file.string());
  if (!opened) return unexpected(opened.error().in(file.string()));
  struct closer {
    int fd;
    ~closer() { ::close(fd); }
  } const out{*opened};
  if (::fchmod(out.fd, 0600) != 0) return cannot_write(file);
  for (std::uint64_t done = 0; done < f.bytes;) {
    const auto got = from.ask(n, wanted(job, f.name, done), piece_within);
    if (!got) return unexpected(error(n.trouble));
    if (got->bytes.empty()) return unexpected(error(n.where.node + ": " + f.name + " became shorter"));
    const auto take = std::min<std::uint64_t>(got->bytes.size(), f.bytes - done);
    if (write_whole(out.fd, {reinterpret_cast<const char*>(got->bytes.data()), take}) < take) return cannot_write(file);
    done += take;
  }
  return {};
}

}  // namespace

expected<void> check_recorded_files(const std::vector<control::recorded_file>& files, std::uint32_t job, std::uint64_t room) {
  if (files.size() > max_recorded_files)
    return unexpected(error("it offers more than " + std::to_string(max_recorded_files) + " files"));
  std::set<std::string> names;
  for (const auto& f : files) {
    if (!is_recorded_name(f.name, job))
      return unexpected(error("it offers a file that no recording of job " + std::to_string(job) + " has"));
    if (!names.insert(f.name).second) return unexpected(error("it offers " + f.name + " twice"));
    if (is_recorded_text(f.name) && f.bytes > max_recorded_text)
      return unexpected(error("its " + f.name + " is larger than 64 MiB"));
    if (f.bytes > room) return unexpected(error("its recording is larger than the free space of this machine"));
    room -= f.bytes;
  }
  return {};
}

expected<std::vector<std::string>> copy_recording(node_links& from, std::uint32_t job, const fs::path& to) {
  std::error_code ec;
  fs::create_directories(to, ec);
  std::vector<std::string> missing;
  for (auto& n : from.nodes()) {
    const auto list = from.ask(n, wanted(job, {}, 0), piece_within);
    if (!list) {
      missing.push_back(n.where.node + ": " + n.trouble);
      continue;
    }
    const auto space = fs::space(to, ec);
    if (ec) return unexpected(error("cannot write " + to.string() + ": " + ec.message()));
    if (const auto ok = check_recorded_files(list->files, job, space.available); !ok)
      return unexpected(ok.error().in(n.where.node + ": its recording is refused"));
    for (const auto& f : list->files)
      if (const auto ok = copy_file(from, n, job, f, to); !ok) return unexpected(ok.error());
  }
  return missing;
}

}  // namespace troupe
