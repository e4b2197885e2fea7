// The examples that `troupe predict -` reads from standard input, as a file in memory for readers
// of files.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/data/inputs.hpp"

namespace troupe {

constexpr std::uint64_t most_stdin_bytes = std::uint64_t{1} << 30;

// What the bytes are: by the first of them, or CSV if they are text.
expected<input_kind> kind_of_stdin(const std::string& path);

class stdin_file {
 public:
  stdin_file() = default;
  ~stdin_file();
  stdin_file(const stdin_file&) = delete;
  stdin_file& operator=(const stdin_file&) = delete;

  // Reads `from` (a file descriptor) to its end. An error if it is empty or has more than `most`
  // bytes.
  expected<void> read(int from, std::uint64_t most);
  // The path of the copy, for as long as this object lives; empty before read().
  const std::string& path() const { return path_; }
  // `text` with "stdin" in place of the path.
  std::string named(std::string text) const;

 private:
  int fd_ = -1;
  std::string path_;
};

}  // namespace troupe
