// Writers that call `before` before every write and sync; otherwise like the functions of these
// names in safetensors.hpp and checkpoint.hpp. Used to simulate a slow disk.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/record/checkpoint.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {

expected<void, record_error> write_safetensors(const std::string& path, const named_tensors& named, const metadata_map& metadata,
                                               const before_write& before);
expected<void, record_error> write_checkpoint(const std::string& file, const checkpoint& c, const before_write& before);
expected<void, record_error> save_checkpoint(const std::string& folder, const checkpoint& c, std::size_t keep,
                                             const before_write& before);

}  // namespace troupe
