// The keys of a TOML file as paths, as `--set` writes them: "layer.conv1.outputs" -> "20". For
// comparisons of job files.
#pragma once

#include <map>
#include <string>

#include "runtime/node/config/document.hpp"

namespace troupe {

using flat_keys = std::map<std::string, std::string>;

flat_keys flat_keys_of(const document_table& root);
// Reads the file and returns its keys.
expected<flat_keys, diagnostics> read_flat_keys(const std::string& file);

}  // namespace troupe
