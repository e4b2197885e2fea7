// The folder in which a daemon keeps state between restarts. Other users cannot read it, and one
// daemon at a time uses it.
// Threads: any.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/base/result.hpp"

namespace troupe {

class state_folder {
 public:
  // Creates the folder if necessary, removes access of other users and locks it. Errors:
  // "state_in_use", which names the process that holds the lock, "state_unusable". Files that this
  // process creates from now on are readable only by its user (umask).
  static expected<state_folder, coded_error> open(const std::filesystem::path& where);
  ~state_folder();
  state_folder(state_folder&& from) noexcept;
  state_folder& operator=(state_folder&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Grows with every start of this node, so that peers recognise messages of an earlier incarnation
  // even if the clock was set back.
  std::uint64_t next_incarnation() const;

 private:
  state_folder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace troupe
