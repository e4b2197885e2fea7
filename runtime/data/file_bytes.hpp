// A file as bytes: whole, for sources that keep their data in memory, or piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

// The whole of a regular file, bounded by its size at opening, which may be at most `most`. Returns
// what is wrong, without naming the file; empty: nothing.
std::string read_whole(const std::string& path, std::vector<std::uint8_t>& out,
                       std::size_t most = std::numeric_limits<std::size_t>::max());

// Bytes that are read where they are wanted, by any number of threads. What lies behind may change
// while it is read: then bytes are others, or reading fails; nothing worse.
class random_bytes {
 public:
  virtual ~random_bytes() = default;
  virtual std::uint64_t size() const = 0;  // when it was opened
  // Bytes [at, at + n) to `out`. Returns what is wrong; empty: nothing.
  virtual std::string read(std::uint64_t at, void* out, std::size_t n) const = 0;
  // Another number when the bytes may be others than they were.
  virtual std::uint64_t version() const { return 0; }
};

// A regular file that is not empty; or what is wrong with it, without naming it.
std::variant<std::shared_ptr<const random_bytes>, std::string> open_bytes(const std::string& path);

}  // namespace troupe
