#include "runtime/node/pki/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdio.h>
#include <cerrno>
#include <system_error>

#include "runtime/base/write_whole.hpp"

namespace troupe {

namespace fs = std::filesystem;

namespace {

coded_error write_error(const fs::path& file, int code) {
  return {"cannot_write", "[certificates] " + file.string() + ": " + std::generic_category().message(code)};
}

// Writes a temporary file next to it, syncs and renames it: a reader sees the old file or the whole
// new one.
expected<void, coded_error> write_atomically(const fs::path& file, const std::string& text, mode_t mode, bool overwrite) {
  const std::string temporary = file.string() + ".new-" + std::to_string(::getpid());
  ::unlink(temporary.c_str());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return unexpected(write_error(file, errno));
  int failed = ::fchmod(fd, mode) == 0 ? 0 : errno;  // independent of the umask
  if (failed == 0 && write_whole(fd, text) < text.size()) failed = errno;
  if (failed == 0 && ::fsync(fd) != 0) failed = errno;
  if (::close(fd) != 0 && failed == 0) failed = errno;
  if (failed == 0 && ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, file.c_str(), overwrite ? 0U : RENAME_NOREPLACE) != 0)
    failed = errno;
  if (failed == 0) return {};
  ::unlink(temporary.c_str());
  if (failed == EEXIST) return unexpected(coded_error{"exists", "[certificates] " + file.string() + " exists"});
  return unexpected(write_error(file, failed));
}

expected<void, coded_error> sync_directory(const fs::path& dir) {
  const int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return unexpected(write_error(dir, errno));
  const bool synced = ::fsync(fd) == 0;
  const int why = errno;
  ::close(fd);
  if (!synced) return unexpected(write_error(dir, why));
  return {};
}

}  // namespace

expected<void, coded_error> prepare_closed_folder(const fs::path& dir) {
  std::error_code ec;
  if (dir.has_parent_path()) fs::create_directories(dir.parent_path(), ec);
  if (ec) return unexpected(write_error(dir, ec.value()));
  if (::mkdir(dir.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) return unexpected(write_error(dir, errno));
  struct stat s {};
  if (::stat(dir.c_str(), &s) != 0) return unexpected(write_error(dir, errno));
  if (!S_ISDIR(s.st_mode)) return unexpected(write_error(dir, ENOTDIR));
  if ((s.st_mode & 077) == 0) return {};
  if (!fs::is_empty(dir, ec) || ec)
    return unexpected(coded_error{
        "directory_open", "[certificates] " + dir.string() + " contains files and is open to other users: chmod 700 it first"});
  if (::chmod(dir.c_str(), 0700) != 0) return unexpected(write_error(dir, errno));
  return {};
}

expected<void, coded_error> write_planned_files(const std::vector<planned_file>& files, const fs::path& dir, bool overwrite) {
  std::vector<fs::path> folders{dir};
  for (const planned_file& f : files) {
    std::error_code ec;
    if (f.path.parent_path() != folders.back()) folders.push_back(f.path.parent_path());
    for (const auto& taken : {f.path, dir / f.path.filename()})  // a cluster may have all files in one folder
      if (!overwrite && fs::exists(fs::symlink_status(taken, ec)))
        return unexpected(coded_error{"exists", "[certificates] " + taken.string() + " exists"});
  }
  for (auto i = folders.begin() + 1; i != folders.end(); ++i)
    if (auto ready = prepare_closed_folder(*i); !ready) return ready;
  for (const planned_file& f : files)
    if (auto done = write_atomically(f.path, f.text, f.mode, overwrite); !done) return done;
  for (auto i = folders.rbegin(); i != folders.rend(); ++i)
    if (auto done = sync_directory(*i); !done) return done;
  return {};
}

}  // namespace troupe
