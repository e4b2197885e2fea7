// What a text must be before TOML++ may see it: it builds the tables of `a.a.a.a` recursively and
// would run out of stack, and it asserts on NUL.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/diagnostic.hpp"

namespace troupe {

// Appends at most one diagnostic (the first trouble); true when the text may be parsed.
bool check_text(std::string_view text, const std::string& file, diagnostics& errors);

}  // namespace troupe
