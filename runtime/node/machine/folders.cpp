// Folders and certificates: space, speed of the disk, and whether peers would accept a pair.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <vector>

#include "runtime/access/names.hpp"
#include "runtime/node/machine/reading.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe::machine {
namespace {

namespace fs = std::filesystem;
using ticks = std::chrono::steady_clock;

// A temporary file without a name, which the system removes.
class scratch_file {
 public:
  explicit scratch_file(const std::string& folder) {
    file_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file_ >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return;
    auto name = folder + "/.troupe-doctor-XXXXXX";
    file_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (file_ >= 0) ::unlink(name.c_str());
  }
  ~scratch_file() {
    if (file_ >= 0) ::close(file_);
  }
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;

  explicit operator bool() const { return file_ >= 0; }
  // Writes `bytes` and waits for the disk. Seconds; negative: it failed, errno says why.
  double write(std::size_t bytes) const {
    const std::vector<char> data(std::min(bytes, std::size_t{1} << 20), 'x');
    const auto begin = ticks::now();
    for (std::size_t left = bytes; left > 0;) {
      const auto n = ::write(file_, data.data(), std::min(left, data.size()));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return -1;
      left -= static_cast<std::size_t>(n);
    }
    if (::fsync(file_) != 0) return -1;
    return std::chrono::duration<double>(ticks::now() - begin).count();
  }

 private:
  int file_ = -1;
};

// The folder itself, or the nearest one above it that exists: there the folder would be made.
std::string existing(const std::string& path) {
  std::error_code ec;
  auto at = fs::absolute(path, ec);
  while (!fs::exists(at, ec) && at.has_relative_path()) at = at.parent_path();
  return at.string();
}

}  // namespace

folder read_folder(const std::string& purpose, const std::string& path, bool writes) {
  constexpr std::size_t burst = std::size_t{8} << 20;
  folder f;
  f.purpose = purpose;
  f.path = path;
  const auto at = existing(path);
  struct statvfs disk {};
  if (::statvfs(at.c_str(), &disk) == 0) {
    f.total = std::uint64_t{disk.f_blocks} * disk.f_frsize;
    f.free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  }
  errno = 0;
  const scratch_file file(at);
  if (!file) {
    f.problem = std::strerror(errno);
    return f;
  }
  if (!writes || f.free < 4 * burst) return f;
  const auto small = file.write(4096), large = small < 0 ? small : file.write(burst);
  if (large < 0) f.problem = std::strerror(errno);
  if (small > 0) f.sync = small;
  if (large > 0) f.write_rate = static_cast<double>(burst) / large;
  return f;
}

certificate read_pair(const std::string& name, const fs::path& dir) {
  certificate c;
  c.name = name;
  c.folder = dir.string();
  const auto file = dir / (name + ".pem");
  const auto mine = read_certificate(file), ca = read_certificate(dir / "ca.pem");
  const auto common_name = mine && name == client_name ? mine->name : name;
  if (const auto fine = check_certificate(dir / "ca.pem", file, dir / (name + ".key"), common_name); !fine)
    c.code = fine.error().code, c.problem = fine.error().message;
  const auto now = std::chrono::system_clock::now();
  const auto days = [&](const auto& until) { return std::chrono::duration<double>(until - now).count() / 86400; };
  if (mine) c.days = days(mine->until);
  if (mine && ca) c.days = std::min(c.days, days(ca->until));
  return c;
}

}  // namespace troupe::machine
