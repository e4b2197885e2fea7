// Options that `troupe import` and `troupe export` share.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/models/model_format.hpp"

namespace CLI {
class App;
}

namespace troupe {

std::string format_list();  // ".safetensors (torch), ..."
void format_option(CLI::App& c, std::string& into);

// The format of this name; if it is empty, that of the files' extensions.
expected<const model_format*, diagnostic> chosen_format(const std::string& name, const std::vector<std::string>& files);
// The list of names in a file; none if `file` is empty.
expected<name_pairs, diagnostics> read_names(const std::string& file);

}  // namespace troupe
