// Unix sockets with paths of any length. Private to actors/repl/.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

namespace troupe {

class open_fd {
 public:
  explicit open_fd(int fd = -1) : fd_(fd) {}
  open_fd(open_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  open_fd& operator=(open_fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~open_fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// The address of a socket file. A path that does not fit into it (107 bytes) is written by way of
// its folder: /proc/self/fd/N/NAME, where N is `folder`, an open folder.
// Returns false if that does not fit either.
bool unix_address(const std::filesystem::path& file, int folder, sockaddr_un& out);
// The folder of the file, for unix_address; -1 and errno: it cannot be opened.
open_fd open_folder_of(const std::filesystem::path& file);
// Connects to a socket file. -1 and errno: no process answers.
open_fd connect_unix(const std::filesystem::path& file);

}  // namespace troupe
