// IDX, the format of MNIST's files (yann.lecun.com/exdb/mnist): 00 00 type rank, `rank` extents as
// big-endian u32, then the elements. Here: unsigned bytes (type 08), plain or gzip-compressed, told
// apart by their first bytes and not by the name. Errors: values; any bytes are answered by an
// array or by a message, and nothing is allocated on the word of a header alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

struct idx_array {
  std::vector<std::int64_t> extents;  // every one >= 1
  std::vector<std::uint8_t> bytes;    // the file's, header included
  std::size_t offset = 0;             // of the first element
  const std::uint8_t* elements() const { return bytes.data() + offset; }
};

using idx_result = std::variant<idx_array, std::string>;

// The array in the bytes of a file, or what is wrong with them. The rank must lie in [min_rank,
// max_rank].
idx_result parse_idx(std::vector<std::uint8_t> file, int min_rank, int max_rank);

// Reads and parses one file; the message does not name it.
idx_result read_idx(const std::string& path, int min_rank, int max_rank);

}  // namespace troupe
