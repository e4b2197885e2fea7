// IDX, the format of MNIST's files (yann.lecun.com/exdb/mnist): 00 00 type rank, `rank` extents as
// big-endian u32, then the elements. Supported: unsigned bytes (type 08), plain or gzip-compressed,
// distinguished by their first bytes and not by the name. Errors: values. Any bytes give an array
// or an error, and the header alone never causes an allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe {

struct idx_array {
  std::vector<std::int64_t> extents;  // every one >= 1
  std::vector<std::uint8_t> bytes;    // the file's, header included
  std::size_t offset = 0;             // of the first element
  const std::uint8_t* elements() const { return bytes.data() + offset; }
};

using idx_result = expected<idx_array>;

// Parses the bytes of a file. On failure returns the error. The rank must be in [min_rank,
// max_rank].
idx_result parse_idx(std::vector<std::uint8_t> file, int min_rank, int max_rank);

// Reads and parses one file; the error does not name it.
idx_result read_idx(const std::string& path, int min_rank, int max_rank);

}  // namespace troupe
