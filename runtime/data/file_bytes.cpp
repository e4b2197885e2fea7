#include "runtime/data/file_bytes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace troupe {
namespace {

struct descriptor {
  int fd = -1;
  ~descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

unexpected<error> system_error(const char* what) { return unexpected(error(std::string(what) + ": " + std::strerror(errno))); }

// Opens a regular file.
expected<void> open_regular(const std::string& path, descriptor& d, std::uint64_t& size) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; a FIFO is rejected below.
  d.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (d.fd < 0) return system_error("cannot open");
  struct stat st {};
  if (::fstat(d.fd, &st) != 0) return system_error("cannot stat");
  if (!S_ISREG(st.st_mode)) return unexpected(error("not a regular file"));
  size = static_cast<std::uint64_t>(st.st_size);
  return {};
}

// Reads by offset instead of mapping: if the file is truncated, its readers get an error and the
// program gets no SIGBUS.
class file final : public random_bytes {
 public:
  file(int fd, std::uint64_t size) : d_{fd}, size_(size) {}
  std::uint64_t size() const override { return size_; }
  expected<void> read(std::uint64_t at, void* out, std::size_t n) const override {
    auto* to = static_cast<std::uint8_t*>(out);
    while (n > 0) {
      const auto got = ::pread(d_.fd, to, n, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_error("cannot read");
      if (got == 0)
        return unexpected(error("it has been cut short: it had " + std::to_string(size_) + " bytes, and byte " +
                                std::to_string(at) + " is gone"));
      to += got;
      at += static_cast<std::uint64_t>(got);
      n -= static_cast<std::size_t>(got);
    }
    return {};
  }
  std::uint64_t version() const override {
    struct stat st {};
    if (::fstat(d_.fd, &st) != 0) return 0;
    return static_cast<std::uint64_t>(st.st_mtim.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(st.st_mtim.tv_nsec);
  }

 private:
  descriptor d_;
  std::uint64_t size_;
};

class memory_bytes final : public random_bytes {
 public:
  explicit memory_bytes(std::vector<std::uint8_t> own) : own_(std::move(own)), bytes_(own_) {}
  explicit memory_bytes(std::span<const std::uint8_t> of_caller) : bytes_(of_caller) {}
  memory_bytes(const memory_bytes&) = delete;
  memory_bytes& operator=(const memory_bytes&) = delete;
  std::uint64_t size() const override { return bytes_.size(); }
  expected<void> read(std::uint64_t at, void* out, std::size_t n) const override {
    if (at > bytes_.size() || n > bytes_.size() - at) return unexpected(error("it is truncated"));
    if (n > 0) std::memcpy(out, bytes_.data() + at, n);
    return {};
  }

 private:
  std::vector<std::uint8_t> own_;
  std::span<const std::uint8_t> bytes_;
};

}  // namespace

std::shared_ptr<const random_bytes> bytes_in_memory(std::vector<std::uint8_t> bytes) {
  return std::make_shared<memory_bytes>(std::move(bytes));
}
std::shared_ptr<const random_bytes> bytes_of_caller(std::span<const std::uint8_t> bytes) {
  return std::make_shared<memory_bytes>(bytes);
}

expected<std::shared_ptr<const random_bytes>> open_bytes(const std::string& path) {
  descriptor d;
  std::uint64_t size = 0;
  if (const auto fine = open_regular(path, d, size); !fine) return unexpected(fine.error());
  if (size == 0) return unexpected(error("an empty file"));
  return std::make_shared<file>(std::exchange(d.fd, -1), size);
}

expected<void> read_whole(const std::string& path, std::vector<std::uint8_t>& out, std::size_t most) {
  descriptor d;
  std::uint64_t size = 0;
  if (auto fine = open_regular(path, d, size); !fine) return fine;
  if (size > most)
    return unexpected(error(std::to_string(size) + " bytes; at most " + std::to_string(most) + " can be kept in memory"));
  out.resize(static_cast<std::size_t>(size));
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
