#include "runtime/data/file_place.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace troupe {
namespace {

std::string refused(mode_t mode) {
  const char* what = "not a regular file";
  if (S_ISDIR(mode)) return "it is a folder";
  if (S_ISCHR(mode) || S_ISBLK(mode)) what = "a device";
  if (S_ISFIFO(mode)) what = "a FIFO";
  if (S_ISSOCK(mode)) what = "a socket";
  return std::string("it is ") + what + ", and only regular files are written";
}

}  // namespace

expected<std::string> place_to_write(const std::string& path) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0 || S_ISREG(st.st_mode)) return path;  // other problems are reported when it is opened
  if (!S_ISLNK(st.st_mode)) return unexpected(error(refused(st.st_mode)));
  const std::unique_ptr<char, decltype(&std::free)> target(::realpath(path.c_str(), nullptr), &std::free);
  if (!target || ::stat(target.get(), &st) != 0)
    return unexpected(error(std::string("it is a symbolic link that cannot be resolved: ") + std::strerror(errno)));
  if (!S_ISREG(st.st_mode)) return unexpected(error("it is a symbolic link, and " + refused(st.st_mode)));
  return std::string(target.get());
}

expected<int> open_to_write(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a reader. An existing file is truncated only after
  // the check that it is a regular one.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0644);
  struct stat st {};
  std::string why;
  if (fd < 0 || ::fstat(fd, &st) != 0)
    why = std::string(": ") + std::strerror(errno);
  else if (!S_ISREG(st.st_mode))
    why = " " + path + ": " + refused(st.st_mode);
  else if (::ftruncate(fd, 0) != 0)
    why = std::string(": ") + std::strerror(errno);
  else
    return fd;
  if (fd >= 0) ::close(fd);
  return unexpected(error("cannot create" + why));
}

}  // namespace troupe
