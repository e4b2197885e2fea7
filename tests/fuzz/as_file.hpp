// An input as a file, for readers that open a path: a memfd, which other processes of the user see
// too.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {

class as_file {
 public:
  explicit as_file(input in) : fd_(::memfd_create("troupe_fuzz", MFD_CLOEXEC)) {
    must(fd_ >= 0 && ::write(fd_, in.data(), in.size()) == static_cast<ssize_t>(in.size()), "cannot make a file of the input");
  }
  ~as_file() { ::close(fd_); }
  as_file(const as_file&) = delete;
  as_file& operator=(const as_file&) = delete;
  std::string path() const { return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace troupe::fuzz
