// Memory that processes of one machine share: a memfd of one process, which the others open as
// /proc/PID/fd/N. The kernel checks access: processes of the same user that see each other. Passing
// the descriptor (SCM_RIGHTS) would need a Unix listener next to the TLS one, with a path and an
// additional authentication; here the location is sent over a TLS session.
//
// The file is sealed against growing and shrinking, so that an access cannot fail because the file
// has become smaller. A process that may open the file could also stop its owner and write to all
// of the owner's memory. So the contents are trusted like that process's messages, and every index
// or length in them is checked before use.
//
// Threads: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/base/result.hpp"

namespace troupe::memory_file {

// Identifies the machine until its next boot; the same for all of its processes and containers.
// Empty if unknown.
std::string machine();

// An owning file descriptor.
class descriptor {
 public:
  explicit descriptor(int fd = -1) : fd_(fd) {}
  descriptor(descriptor&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  descriptor& operator=(descriptor&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~descriptor();
  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_;
};

enum class pages : std::uint8_t {
  reserved,  // allocated at once: an access cannot fail later
  sparse     // allocated when they are touched
};

// Makes a file of this process, all zeros, not yet sealed.
expected<descriptor> make(const char* name, std::uint64_t bytes, pages when);
bool seal(const descriptor& d);
// 64 random bits that cannot be guessed; 0 on failure.
std::uint64_t random_token();

// The location of a process's file, as sent by that process.
struct place {
  std::string machine;
  std::uint32_t process = 0, descriptor = 0;
};
enum class access : std::uint8_t { read, read_write };
// Opens the file after checking that it is on this machine, and has that name, this user, the seals
// and that size. `whose` names the owner in errors ("the daemon").
expected<descriptor> open(const place& at, const char* name, std::uint64_t bytes, access how, const std::string& whose);

}  // namespace troupe::memory_file
