#include "actors/repl/unix_socket.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

namespace troupe {

bool unix_address(const std::filesystem::path& file, int folder, sockaddr_un& out) {
  out = {};
  out.sun_family = AF_UNIX;
  auto path = file.string();
  if (path.size() >= sizeof out.sun_path) path = "/proc/self/fd/" + std::to_string(folder) + "/" + file.filename().string();
  if (path.size() >= sizeof out.sun_path) return false;
  std::memcpy(out.sun_path, path.c_str(), path.size() + 1);
  return true;
}

open_fd open_folder_of(const std::filesystem::path& file) {
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  return open_fd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

open_fd connect_unix(const std::filesystem::path& file) {
  const auto folder = open_folder_of(file);
  sockaddr_un at{};
  if (!folder) return open_fd();
  if (!unix_address(file, folder.get(), at)) {
    errno = ENAMETOOLONG;
    return open_fd();
  }
  open_fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    const int why = errno;
    fd = open_fd();
    errno = why;
    return open_fd();
  }
  return fd;
}

}  // namespace troupe
