// Memory that processes of one machine share: a memfd of one of them, which the others open as
// /proc/PID/fd/N. So the kernel decides who may: processes of the same user that see each other.
// Passing the descriptor (SCM_RIGHTS) would need a Unix listener beside the TLS one, with a path
// and an authentication of its own; here whoever opens has been told where over a TLS session.
//
// The file is sealed against growing and shrinking, so that touching it never fails for want of it.
// Whoever may open it could also stop the process that made it and write into all of its memory:
// what lies in it is believed no less and no more than that process's messages are, and no index or
// length in it is used without a look at it.
//
// Threads: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace troupe::memory_file {

// The same for all processes of a machine until it boots again; containers too see that of their
// machine. Empty: unknown.
std::string machine();

// One that closes itself.
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
  reserved,  // taken at once: touching them cannot fail later
  sparse     // as they are touched
};

// Of this process, all zeros, not yet sealed. None: `why` says it.
descriptor make(const char* name, std::uint64_t bytes, pages when, std::string& why);
bool seal(const descriptor& d);
// Sixty-four bits that nobody can guess; zero: there are none to be had.
std::uint64_t random_token();

// Where a process says that its file is.
struct place {
  std::string machine;
  std::uint32_t process = 0, descriptor = 0;
};
enum class access : std::uint8_t { read, read_write };
// Opens it, when it is what it should be: on this machine, of that name, of this user, sealed, of
// that size. `whose` is for the sentence ("the daemon"). None: `why` says it.
descriptor open(const place& at, const char* name, std::uint64_t bytes, access how, const std::string& whose, std::string& why);

}  // namespace troupe::memory_file
