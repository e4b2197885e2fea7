#include "runtime/node/memory_file/memory_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace troupe::memory_file {
namespace {

constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string system_error(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

// Empty if the file may be used, otherwise the reason.
std::string objection(int fd, std::uint64_t bytes, const std::string& whose) {
  struct stat s {};
  if (::fstat(fd, &s) != 0) return system_error("fstat failed");
  if (s.st_uid != ::geteuid())
    return whose + " runs as user " + std::to_string(s.st_uid) + ", this process as user " + std::to_string(::geteuid());
  const int sealed = ::fcntl(fd, F_GET_SEALS);
  if (sealed < 0 || (sealed & seals) != seals) return "it is not sealed memory";
  if (static_cast<std::uint64_t>(s.st_size) != bytes) return "its size is wrong";
  return {};
}

}  // namespace

std::string machine() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return id;
}

descriptor::~descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

expected<descriptor> make(const char* name, std::uint64_t bytes, pages when) {
  descriptor made(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  bool fine = made && ::fchmod(made.get(), 0600) == 0;
  if (fine && when == pages::sparse) fine = ::ftruncate(made.get(), static_cast<off_t>(bytes)) == 0;
  if (fine && when == pages::reserved) {
    errno = ::posix_fallocate(made.get(), 0, static_cast<off_t>(bytes));
    fine = errno == 0;
  }
  if (fine) return made;
  return unexpected(error(std::strerror(errno)));
}

bool seal(const descriptor& d) { return ::fcntl(d.get(), F_ADD_SEALS, seals) == 0; }

std::uint64_t random_token() {
  std::uint64_t token = 0;
  return ::getrandom(&token, sizeof token, 0) == sizeof token ? token : 0;
}

expected<descriptor> open(const place& at, const char* name, std::uint64_t bytes, access how, const std::string& whose) {
  const auto refused = [](std::string text) { return unexpected(error(std::move(text))); };
  const auto here = machine();
  if (here.empty() || here != at.machine) return refused(whose + " runs on another machine");
  const auto path = "/proc/" + std::to_string(at.process) + "/fd/" + std::to_string(at.descriptor);
  // Checked before opening: for a process of another container the path may name anything.
  char link[64] = {};
  if (::readlink(path.c_str(), link, sizeof link - 1) < 0)
    return refused(errno == EACCES ? system_error("it belongs to another user")
                                   : system_error((whose + " is not visible from here (another container?)").c_str()));
  if (std::string(link).rfind(std::string("/memfd:") + name, 0) != 0)
    return refused(whose + " is not visible from here (another container?)");
  descriptor f(::open(path.c_str(), (how == access::read ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK));
  if (!f) return refused(system_error(errno == EACCES ? "it belongs to another user" : "it cannot be opened"));
  if (auto no = objection(f.get(), bytes, whose); !no.empty()) return refused(std::move(no));
  return f;
}

}  // namespace troupe::memory_file
