// Checks a text before TOML++ parses it: TOML++ builds the tables of `a.a.a.a` recursively and
// would overflow the stack, and it asserts on NUL.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/diagnostic.hpp"

namespace troupe {

// Appends at most one diagnostic, for the first mistake. Returns true if the text may be parsed.
bool check_text(std::string_view text, const std::string& file, diagnostics& errors);

}  // namespace troupe
