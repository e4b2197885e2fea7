// The `plugins` key, which job and cluster files share.
#pragma once

#include <string>
#include <vector>

#include "runtime/node/config/table_reader.hpp"

namespace troupe {

// `only`: as in read_plugins() (job_file.hpp).
std::vector<std::string> take_plugins(table_reader& root, const std::string& file, const std::vector<std::string>* only = nullptr);

// Resolves a relative `path` against the folder of `file`.
std::string relative_to(const std::string& file, const std::string& path);

}  // namespace troupe
