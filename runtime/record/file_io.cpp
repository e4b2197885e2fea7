#include "runtime/record/file_io.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "runtime/base/write_whole.hpp"
#include "runtime/data/file_place.hpp"

namespace troupe {
namespace {

constexpr std::align_val_t alignment{64};

class descriptor {
 public:
  explicit descriptor(int fd) : fd_(fd) {}
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  int get() const { return fd_; }
  // For writers: some file systems report a failed write only on close.
  int close() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd);
  }

 private:
  int fd_;
};

unexpected<error> system_error(const char* what) { return unexpected(error(std::string(what) + ": " + std::strerror(errno))); }

expected<void> write_temporary(const std::string& path, const std::vector<file_part>& parts, const before_write& before) {
  const auto fd = open_to_write(path);
  if (!fd) return unexpected(fd.error());
  descriptor d(*fd);
  for (const auto& p : parts) {
    if (before) before();
    if (write_whole(d.get(), {static_cast<const char*>(p.data), p.bytes}) < p.bytes) return system_error("cannot write");
  }
  if (before) before();
  if (::fsync(d.get()) != 0) return system_error("cannot sync");
  if (d.close() != 0) return system_error("cannot close");
  return {};
}

expected<void> sync_folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  const auto folder = slash == std::string::npos ? std::string(".") : slash == 0 ? std::string("/") : path.substr(0, slash);
  descriptor d(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (d.get() < 0) return system_error("cannot open the folder");
  // EINVAL: the file system does not support fsync of folders.
  if (::fsync(d.get()) != 0 && errno != EINVAL) return system_error("cannot sync the folder");
  return {};
}

}  // namespace

expected<file_bytes> read_file(const std::string& path, std::size_t most) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; a FIFO is rejected below.
  descriptor d(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (d.get() < 0) return system_error("cannot open");
  struct stat st {};
  if (::fstat(d.get(), &st) != 0) return system_error("cannot stat");
  if (!S_ISREG(st.st_mode)) return unexpected(error("not a regular file"));
  const auto of_file = static_cast<std::size_t>(st.st_size), size = std::min(of_file, most);
  auto* memory = static_cast<char*>(::operator new(size > 0 ? size : 1, alignment, std::nothrow));
  if (!memory) return unexpected(error("its " + std::to_string(size) + " bytes do not fit into memory"));
  const std::shared_ptr<void> owner(memory, [](void* p) { ::operator delete(p, alignment); });
  std::size_t got = 0;
  while (got < size) {
    const auto n = ::read(d.get(), memory + got, size - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("cannot read");
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return file_bytes{owner, got, got < size ? got : of_file};  // fewer: the file became shorter meanwhile
}

expected<void> write_file_atomically(const std::string& path, const std::vector<file_part>& parts, const before_write& before) {
  const auto place = place_to_write(path);
  if (!place) return unexpected(place.error());
  const auto temporary = *place + temporary_suffix;
  if (const auto other = place_to_write(temporary); !other) return unexpected(other.error().in(temporary));
  auto written = write_temporary(temporary, parts, before);
  if (written && ::rename(temporary.c_str(), place->c_str()) != 0) written = system_error("cannot rename");
  if (!written) {
    ::unlink(temporary.c_str());
    return written;
  }
  if (before) before();
  return sync_folder_of(*place);
}

void forget_cached(const std::string& path) {
  descriptor d(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (d.get() >= 0) (void)::posix_fadvise(d.get(), 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace troupe
