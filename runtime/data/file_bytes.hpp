// A file as bytes: whole, for sources that keep their data in memory, or piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe {

inline constexpr std::uint64_t deflate_ratio = 1032;  // maximum compression ratio of deflate (zlib's technical notes)

// Reads a whole regular file, up to its size at opening, which must be at most `most`. The error
// does not name the file.
expected<void> read_whole(const std::string& path, std::vector<std::uint8_t>& out,
                          std::size_t most = std::numeric_limits<std::size_t>::max());

// Bytes that any number of threads read at any offset. The content may change while it is read:
// then reads return other bytes or fail.
class random_bytes {
 public:
  virtual ~random_bytes() = default;
  virtual std::uint64_t size() const = 0;  // at opening
  // Reads bytes [at, at + n) to `out`.
  virtual expected<void> read(std::uint64_t at, void* out, std::size_t n) const = 0;
  // Changes when the bytes may have changed.
  virtual std::uint64_t version() const { return 0; }
};

// Opens a regular file that is not empty. The error does not name the file.
expected<std::shared_ptr<const random_bytes>> open_bytes(const std::string& path);

// Bytes in memory: its own, or a caller's, which must outlive the result.
std::shared_ptr<const random_bytes> bytes_in_memory(std::vector<std::uint8_t> bytes);
std::shared_ptr<const random_bytes> bytes_of_caller(std::span<const std::uint8_t> bytes);

}  // namespace troupe
