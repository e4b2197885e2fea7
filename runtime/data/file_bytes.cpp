#include "runtime/data/file_bytes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace troupe {
namespace {

struct descriptor {
  int fd = -1;
  ~descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::string system_error(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

}  // namespace

std::string read_whole(const std::string& path, std::vector<std::uint8_t>& out, std::size_t most) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it is refused below.
  descriptor d{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (d.fd < 0) return system_error("cannot open");
  struct stat st {};
  if (::fstat(d.fd, &st) != 0) return system_error("cannot stat");
  if (!S_ISREG(st.st_mode)) return "not a regular file";
  if (static_cast<std::size_t>(st.st_size) > most)
    return std::to_string(st.st_size) + " bytes; at most " + std::to_string(most) + " can be kept in memory";
  out.resize(static_cast<std::size_t>(st.st_size));
  std::size_t got = 0;
  while (got < out.size()) {
    const auto n = ::read(d.fd, out.data() + got, out.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("cannot read");
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  out.resize(got);
  return {};
}

}  // namespace troupe
