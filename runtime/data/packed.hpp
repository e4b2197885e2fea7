// Packed data (packed_file.hpp) as a source, and any source as packed data. Threading: open sources
// as source.hpp says; writing is for one thread. Errors: values, which name the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "runtime/data/file_bytes.hpp"
#include "runtime/data/packed_file.hpp"
#include "runtime/data/source.hpp"

namespace troupe {

// Reading throws std::runtime_error for a block that is damaged, also when it has become so since.
std::variant<std::shared_ptr<const source>, std::string> open_packed(std::shared_ptr<const random_bytes> file,
                                                                     const std::string& name);

struct packed_result {
  packed_header header;
  std::int64_t bytes = 0;  // of the file
};
// Writes all examples of `s` to `path` (through PATH.tmp, so that `path` is the old or the whole
// new file). Values that are bytes stay bytes with their scale, so that a job reads what it would
// have read from `s`, bit for bit; others become f32, ids i32.
std::variant<packed_result, std::string> pack(const source& s, const std::string& path);

}  // namespace troupe
