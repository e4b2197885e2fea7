// Packed data (packed_file.hpp) as a source, and packing of any source. Threading: sources as in
// source.hpp; packing: one thread. Errors: values that name the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/data/packed_file.hpp"
#include "runtime/data/source.hpp"

namespace troupe {

// Reading throws std::runtime_error for a damaged block, also if the damage occurred after opening.
expected<std::shared_ptr<const source>> open_packed(std::shared_ptr<const random_bytes> file, const std::string& name);

struct packed_result {
  packed_header header;
  std::int64_t bytes = 0;  // of the file
};
// Writes all examples of `s` to `path` (through PATH.tmp, so that `path` is the old or the complete
// new file). Byte values are stored as bytes with their scale, so that a job reads the same values
// as from `s`, bit for bit. Other values are stored as f32, ids as i32.
expected<packed_result> pack(const source& s, const std::string& path);

}  // namespace troupe
