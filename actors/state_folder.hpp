// What a daemon keeps between its lives: a folder that others do not enter, and that one daemon at
// a time has. Any thread.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/node/net/error.hpp"

namespace troupe {

class state_folder {
 public:
  // Made when it is not there, and closed to others. Errors: "state_in_use", which names the
  // process that has it, for as long as that one lives. Files that this process makes from now on
  // are its user's alone (umask).
  static net::expected<state_folder> open(const std::filesystem::path& where);
  ~state_folder();
  state_folder(state_folder&& from) noexcept;
  state_folder& operator=(state_folder&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Grows with every start of this node, so that whoever knew an earlier life of it can tell, even
  // after the clock was set back.
  std::uint64_t next_incarnation() const;

 private:
  state_folder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace troupe
